"""`barycenter admin`: `command` makes commands of click of the rows of `admin.commands`, `completion` offers names of a
cluster to a shell. `cli.asking` says where that cluster is, and as whom it is asked.
"""
