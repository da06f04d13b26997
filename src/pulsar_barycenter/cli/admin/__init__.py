"""`barycenter admin`: `command` makes commands of click of the rows of `admin.commands`, `completion` offers names of a
cluster to a shell. `cli.asking` has its address and the credentials.
"""
