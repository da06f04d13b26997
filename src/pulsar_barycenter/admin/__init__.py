"""The admin REST of a broker, as one who calls it sees it.

`client` sends a request, follows the redirects by which brokers hand it on, and returns the JSON of the answer;
`errors` has the one error that a call ends with. `client_conf` reads where a cluster is and what is shown to it, as
Pulsar's own tools do. `commands` are those of `pulsar-admin`, as rows. Brokers call each other with `client`, commands
and the demo a cluster, the collector one that may be Apache Pulsar's.

What is asked for, and what an answer means, is left to those who ask. The answering side is `broker.rest`.
"""
