"""The admin REST of a broker: what callers and the broker have to agree on.

`client` sends a request, follows redirects from broker to broker, and returns the JSON of the answer; `errors` has the
one error that a call raises. Brokers call each other with it; commands and the demo call a cluster; the collector also
calls Apache Pulsar. `routes` is the table of all requests, and `operations` are the operations that a right allows.

The answering side is `broker.rest`.
"""
