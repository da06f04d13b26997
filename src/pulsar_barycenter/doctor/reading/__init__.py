"""Reads the data for a picture.

`cluster` queries brokers by their admin REST, `store` reads the keys of a metadata store, `ledgers` tests the ledger
folder, `bookies` compares the ledgers on bookies, and `file` reads a broker.conf on this machine. Number, size and time
are bounded; data that a bound leaves out is reported as not checked. `stored_keys` parses keys, `clock_offset`
estimates a broker's clock from the date of an answer; both are pure.
"""
