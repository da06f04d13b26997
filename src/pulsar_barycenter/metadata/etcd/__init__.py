"""A metadata store in etcd (v3 API, 3.4 or newer), for brokers on any number of machines.

Rules. Each write is one transaction that also checks the key of the session. That key is deleted in the same revision
as the session's ephemeral keys, so a client whose session has ended cannot write.

The modules, from the interface inwards: `etcd_store` has the operations. `transactions` builds the request of a put or
delete and decodes its answer. `layout` maps paths to keys. `lease` keeps the session alive and replaces a lost one.
`watch` follows changes. All requests pass through `etcd_connection`, which uses one of the servers in `etcd_settings`.
`etcd_api` is the part of etcd's API that is needed.
"""
