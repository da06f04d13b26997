"""A metadata store in memory, for tests and simulation. `memory_store` has the server and its clients, `key_table` the
keys.

It runs on the event loop only. `link` is the connection between a client and the server, on which messages are delayed
or lost. Every delay and fault is a method call, so simulations can be replayed exactly.
"""
