"""A metadata store in ZooKeeper, keys where Pulsar has them.

From the event loop inwards: `zookeeper_store` is what a caller has, `layout` what a node says of a key, `settings` whom
to trust and as whom to come. `session_keeper` opens another session in place of one that was lost; `session_link` is
one session and the thread of its client; and `recursive_client` is that client: kazoo, and the watch that it lacks.
"""
