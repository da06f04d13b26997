"""The administration of a cluster by the names, flags and output of `pulsar-admin`, as rows of data.

`table` defines a command: its name, its arguments and flags, and its work. `clusters`, `namespaces`, `topics`,
`topic_policies`, `cursors`, `messages`, `permissions`, `limits`, `storage`, `rules`, `properties`, `auto_creation`,
`schemas`, `resource_groups`, `bookies`, `brokers` and `policies` are the commands as rows; `units` reads sizes and
times. The work of most is one request: a row of the route table `admin.routes`, whose path the typed values fill.
`session` sends it to Barycenter or Apache Pulsar; `output` gives the lines of the answer, `shown_messages` those of
stored messages.

No module here writes to a terminal: `cli.admin` makes click commands of these rows.
"""
