"""What BookKeeper stores of ledgers and bookies in the metadata store, and the keys where it does.

`ledger_metadata` is the value of a ledger: who has which entries, whether it is open, and how it ended. `ledger_paths`
has the keys of ledgers and the layouts of a cluster. `bookie_info` reads where a bookie listens. These are pure.
`ledger_store` reads and changes the keys through a metadata store, and draws the ids of ledgers. `bookie_registry`
follows which bookies there are.
"""
