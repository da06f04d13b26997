"""The records about ledgers and bookies that BookKeeper keeps in the metadata store, and their keys.

`ledger_metadata` is the record of a ledger: which bookies have which entries, whether it is open, and where it ended.
`ledger_paths` has the keys of ledgers and the layouts of a cluster. `bookie_info` reads where a bookie listens. These
three do no I/O. `ledger_store` reads and changes the keys through a metadata store, and creates the ids of ledgers.
`bookie_registry` keeps a current list of the bookies.
"""
