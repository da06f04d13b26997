"""What people read on a terminal, whichever command prints it.

`tables` fits rows of texts to the width of the terminal, and has what makes a text safe to print; `progress` shows how
far a long task is; `errors` gives the words of an exception, and `suggestions` the names that a typing error may stand
for.

Rooms below `cli` print their reports by this room. Options, exit codes and usage errors are `cli`.
"""
