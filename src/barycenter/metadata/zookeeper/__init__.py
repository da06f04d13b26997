"""A metadata store in ZooKeeper, keys where Pulsar has them.

From the event loop inwards: `zookeeper_store` is what a caller has, `settings` whom to trust and as whom
to come, `layout` what a node says of a key, `session_link`
one session and the thread of its client, `recursive_client` that client: kazoo, and the watch that it lacks.
"""
