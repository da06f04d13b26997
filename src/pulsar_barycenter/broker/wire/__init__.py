"""The binary protocol on sockets: connections of clients, and the requests that come over them.

`server` listens and gives each `connection` its `services` and `handlers`. A connection takes SENDs itself and hands
every other command to the function that `handlers` names: in `handshake` (who is there), `lookup_requests` (any broker
answers them), `attach_requests` (producers and consumers come and go) and `consume_requests` (what an attached consumer
asks). `admission` asks first whether a client may. `producer_names` makes names for producers that bring none.

A request that has to wait is one of the `open_requests`. `bounds` say how much of everything one client may have under
way, and `signs_of_life` whether it is still there. `refusals` answer each command that failed in its own words, with
the codes of `errors`.

Frames and commands are encoded and checked in `protocol`, without I/O; nothing is decided here but the order
of answers and when to stop reading.
"""
