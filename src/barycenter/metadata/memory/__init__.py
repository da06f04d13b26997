"""A metadata store in memory: `memory_store` has the server and its clients, `key_table` the keys.

It runs on the event loop alone and takes every delay and fault as a method, so that simulations replay exactly.
"""
