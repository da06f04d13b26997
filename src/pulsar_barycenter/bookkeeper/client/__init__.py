"""The client of bookies on an event loop: connections, and the code that carries out what the state machines decide.

`connection` is one connection to one bookie; `opening` makes it, with TLS and authentication if wanted; `bookie_pool`
has the connections to all bookies. `driver` carries out the actions that a state machine (`machines`) returns.
`ledger_writer` and `ledger_reader` are an open ledger; `ledger_client` creates, opens and deletes ledgers.
`client_settings` has the limits and time-outs, `room` counts the bytes of entries that are not confirmed.

The bytes that wait for a confirmation are limited, over all ledgers of a client: an append awaits `room`. A request
without an answer in time ends its connection, so that a late answer is never taken for that of a later request.
"""
