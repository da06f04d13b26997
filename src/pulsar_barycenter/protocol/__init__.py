"""The Pulsar binary protocol without I/O: bytes to values and back, for the role of a broker and of a client.

Problem. A peer may send anything, in pieces of any size, and millions of messages a minute. The codec must refuse what
breaks the protocol before it costs memory, and must be fast for the commands that come most often.

Rules. This package reads no socket and no clock: a caller passes bytes in and gets commands and bytes out, so every
case can be tested with values. Sizes are checked before data is kept. The most frequent commands have a fast path. All
others take the general path, which gives the same result.

Three layers, in reading order. `frames` cuts bytes into frames and knows the entry that follows a command. `parsing`
turns a command into its type and message; `commands` and `client_commands` turn values into whole frames.
`connection_state` decides which command is legal now, performs the handshake and the keep-alive. `send_runs` reads many
SENDs in one step, and `varints` writes many numbers in one step. `errors` distinguishes a bug of this program from a
fault of the peer. `pulsar_api_pb2` is generated from Pulsar's definitions (`scripts/generate_protocol.py`).

Sockets, time and the effect of a command belong to the caller.
"""
