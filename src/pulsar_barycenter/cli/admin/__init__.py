"""`barycenter admin`: `command` makes commands of click from the rows of `admin.commands`, `completion` offers names of
the cluster to a shell. `cli.asking` has its address and the credentials.
"""
