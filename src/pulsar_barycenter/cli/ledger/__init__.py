"""`barycenter ledger`: checks, repairs and migrates stored messages.

`command` is the group, with the commands `check`, `repair` and `bookies`; `migrate` moves the messages of a stopped
cluster to bookies. `present_store` has the options that name the data folder and the metadata store. The package
`ledger` does the work.
"""
