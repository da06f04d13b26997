"""What is asked before a client gets anything.

`connection_limits` says whether there may be another connection, `rights` whether a client may have what it asks for,
`publish_buffer` whether there is memory for what it publishes, `disk_room` whether the disk takes it, and `sends`
whether that is whole. Who the client is was found out in the handshake, by `broker.access`; the rules are in
`broker.authorization`.
"""
