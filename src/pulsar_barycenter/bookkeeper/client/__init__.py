"""The client of bookies on an event loop: connections, and the drivers of the machines.

`connection` is one connection to one bookie; `bookie_pool` has those to all of them. `driver` carries out what a
machine asks for. `ledger_writer` and `ledger_reader` are an open ledger; `ledger_client` creates, opens and deletes
ledgers. `client_settings` has the limits and time-outs, `room` counts the bytes that are not confirmed.

Adds are bounded by the bytes that wait for a confirmation, over all ledgers of a client. An append awaits `room`.
A request without an answer in time ends its connection, so that a late answer is never taken for that of a later
request.
"""
