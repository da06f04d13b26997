"""The admin REST of a broker: what the callers and the broker share.

`client` sends a request, follows redirects from broker to broker, and returns the JSON of the answer; `errors` has the
one error that a call raises. Brokers call each other with `client`; commands and the demo call a cluster; the collector
also calls Apache Pulsar. `client_conf` reads the address of a cluster and the credentials, as Pulsar's own tools do.
`routes` is the table of all requests, `operations` are the operations that a right allows, and `commands` are the
commands of `pulsar-admin`, as rows.

The answering side is `broker.rest`.
"""
