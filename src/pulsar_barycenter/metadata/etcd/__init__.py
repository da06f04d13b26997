"""A metadata store in etcd (v3 API, as of 3.4), for brokers on any number of machines.

From the caller inwards: `etcd_store` is what a caller has, `transactions` says what a put or a delete is to the server
and what its answer means, `layout` which key a path is. `lease` keeps the session alive and replaces one that was lost,
`watch` follows the changes; both and all requests go by `connection`, which speaks with one of the servers that
`settings` name. `etcd_api` is the part of etcd's own API that all this needs.
"""
