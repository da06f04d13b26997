"""Ledgers of topics on bookies of Apache BookKeeper.

Problem. In BookKeeper the last client that recovers a ledger owns it; there is no other order of owners. BookKeeper
keeps entries, but neither message counts nor publish times. Managed ledgers need an order of owners, and some of these
numbers.

Rules. The epoch of the last owner is part of the ledger's custom metadata. A new owner first stores its epoch there by
compare-and-set, unless a later one is there, and then recovers the ledger. A writer whose ledger was fenced reads this
epoch: only a later epoch proves that there is a later owner, because BookKeeper's auto recovery fences ledgers as well.
The list of a topic's ledgers says how many entries of a ledger are valid; it is changed under the owner's epoch, as
with ledgers in files.

`bookkeeper_storage` is the `LedgerStorage`. `bookie_writer` appends; `bookie_reader` reads, and gets message counts and
publish times from the entries by a function that the broker passes. `opened_bookies` finds the bookies by Pulsar's URI.
`marks` are the custom metadata. `storage_errors` converts the errors of the client to errors of ledgers.
"""
