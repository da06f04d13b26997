"""A metadata store in Oxia (0.16 or newer), for brokers on any number of machines.

From the caller inwards: `oxia_store` is what a caller has, `writes` says what a put or a delete is to the server and
what its answer means, `layout` which key a path is. `session` keeps the session alive and replaces one that was lost,
`watch` follows the changes; both and all requests go by `connection`, which finds the server that leads the shard
through one of those that `settings` name. `oxia_api` is the part of Oxia's own API that all this needs.
"""
