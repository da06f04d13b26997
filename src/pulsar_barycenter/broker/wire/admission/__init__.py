"""Checks a request of a client before the broker serves it.

`connection_limits` limits the number of connections. `rights` checks whether the client has the right for a command.
`publish_buffer` limits the memory for messages that are being published, `disk_room` holds producers while the disk is
full, `topic_schemas` checks the schemas of producers and consumers, and `sends` checks that the published entries are
complete. The client was authenticated before, in the handshake (`broker.access`). The rules of authorization are in
`broker.authorization`.
"""
