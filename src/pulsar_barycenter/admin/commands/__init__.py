"""The administration of a cluster by the names, flags and output of `pulsar-admin`, as rows of data.

`table` is what a command is: a name, what is typed behind it, and the work. `clusters`, `namespaces`, `topics`,
`permissions`, `limits`, `brokers` and `policies` are the commands as rows. The work of most is one request: a row of
the route table `admin.routes`, whose path the typed values fill. `session` sends it to Barycenter or Apache Pulsar;
`output` gives the lines of the answer.

Nothing here knows a terminal: `cli.admin` makes commands of click of these rows.
"""
