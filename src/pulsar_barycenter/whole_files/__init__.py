"""Files of this machine that appear as a whole: a reader finds the old content or the new one, never a part.

`appearing` has the two ways to write one. A file under construction has a name that begins with a dot, and no two
writers share such a name, be they processes or threads. `lines` appends lines to a file.
`reading` reads a file whose kind and size are not known. `locked_folder` lets one process at a time write to a folder.
"""
