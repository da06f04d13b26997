"""A metadata store in memory: `memory_store` has the server and its clients, `key_table` the keys.

It runs on the event loop alone. `link` is the way between a client and the server, on which messages are late or lost;
every delay and fault is a method, so that simulations replay exactly.
"""
