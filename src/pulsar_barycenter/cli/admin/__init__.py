"""`barycenter admin`: the administration of a cluster by the names, flags and output of `pulsar-admin`.

A command is a row (`table`): a name, its arguments and options, and its work, which is mostly one request: a row of the
route table `admin.routes`, whose path the typed values fill. `clusters`, `namespaces`, `topics`, `permissions`,
`limits`, `brokers` and `policies` are the commands. `session` sends requests to Barycenter or Apache Pulsar, with the
address and the credentials that `cli/asking` finds; `output` prints the answer. `completion` offers names of the
cluster to a shell. `command` makes commands of click from the rows.
"""
