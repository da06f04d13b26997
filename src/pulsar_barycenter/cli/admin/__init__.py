"""`barycenter admin`: the commands of pulsar-admin.

`command` builds the click commands from the table of `admin.commands`. `completion` completes names of the cluster in a
shell. `cli.asking` provides the address of the cluster and the credentials.
"""
