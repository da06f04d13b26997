"""`barycenter advise`: which load manager, strategy and settings a cluster's history speaks for.

`trying` has the runs made that `replay.advice` asks for, `reality` reads what the history itself shows, `board` prints
the advice, `command` is the command.
"""
