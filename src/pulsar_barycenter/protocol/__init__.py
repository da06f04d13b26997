"""The Pulsar binary protocol without I/O: bytes to values and back, for either role.

Three layers, in the order to read them: `frames` cut bytes and know the entry that follows a command; `parsing` turns
a command into its type and message, `commands` and `client_commands` turn values into whole frames; `connection` says
what is legal now, makes the handshake and keeps the connection alive. `send_runs` reads and `varints` writes in one
step what comes and goes most often in a row. `errors` tells our misuse from the peer's fault.
`pulsar_api_pb2` is generated from Pulsar's own definitions (`scripts/generate_protocol.py`).

Sockets and time are the caller's, and so is what a command brings about.
"""
