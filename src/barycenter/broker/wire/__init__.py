"""The binary protocol on sockets: connections of clients, and the requests that come over them.

`server` listens and gives each `connection` its `services` and `handlers`. A connection takes SENDs itself and hands
every other command to the function that `handlers` names: in `handshake` (who is there), `lookup_requests` (any broker
answers them), `attach_requests` (producers and consumers come and go) and `consume_requests` (what an attached consumer
asks). `admission` asks first whether a client may. `errors` says each refusal in the protocol's codes; `producer_names`
makes names for producers that bring none.

Frames and commands are encoded and checked in `barycenter.protocol`, without I/O; nothing is decided here but the order
of answers and when to stop reading.
"""
