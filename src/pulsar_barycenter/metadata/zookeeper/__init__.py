"""A metadata store in ZooKeeper, with keys at the same paths as Pulsar's.

Rules. ZooKeeper checks versions itself. It cannot check whether a key belongs to this session, and whether a node is a
key or only a parent of keys: that is read in a request before the write. Changes arrive by a recursive watch, so
ZooKeeper 3.6 or newer is needed.

The modules, from the interface inwards: `zookeeper_store` has the operations. `layout` maps nodes to keys.
`zookeeper_settings` are TLS and credentials. `session_keeper` replaces a lost session. `session_link` is one session
and the thread of its client. `recursive_client` is that client: kazoo, and the recursive watch that kazoo lacks.
"""
