"""`barycenter admin`: the administration of a cluster by the names, flags and output of `pulsar-admin`.

`table` is what a command is: a name, what is typed behind it, and the work. `clusters`, `namespaces`, `topics`,
`permissions`, `limits`, `brokers` and `policies` are the commands as rows, whose work is mostly one request. `session`
sends it to Barycenter or Apache Pulsar, as `cli/asking` says where that is and as whom; `output` prints the answer.
`completion` offers names of the cluster to a shell. `command` makes of it all what click runs.
"""
