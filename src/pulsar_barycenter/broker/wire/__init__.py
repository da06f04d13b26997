"""Serves the binary protocol on sockets: client connections, and the requests that arrive on them.

Problem: clients are many and not trusted. One client must not use up the broker's memory, and a request that waits must
not block others of the same connection. Rules: frequent commands (SEND, FLOW, ACK) are handled in the step that
receives them. A command that has to wait runs in a task. Everything that a client can cause without waiting for answers
has a limit; at the limit the broker stops reading from this client.

- Connections: `server` listens; `connection` is one client; `services` are the parts of the broker that connections
  use; `bounds` has the limits; `signs_of_life` sends PINGs and closes silent connections.
- Commands: `connection` handles SEND. `handlers` has the function for every other command: in `handshake` (CONNECT,
  authentication), `lookup_requests` (any broker can answer these), `attach_requests` (producers and consumers attach
  and close), `consume_requests` (requests of attached consumers), `scalable_requests` (layouts of topics, which
  Pulsar 5's clients ask for) and `transaction_requests` (all refused). `admission` first checks whether the client may
  send the command.
- Answers: `open_requests` has the requests that wait; `errors` has the error code for each exception; `refusals`
  builds the error response that each command has; `producer_names` generates names for producers without one.

`protocol` encodes and checks frames and commands, without I/O. This package only decides the order of the answers, and
when to stop reading.
"""
