"""Ledgers of topics on bookies of Apache BookKeeper.

Problem. BookKeeper has its own rules of who may write a ledger, and no order of owners: the last to recover a ledger
has it. It keeps entries, and neither message counts nor publish times. Managed ledgers need an order of owners, and
some of these numbers.

Rules. The epoch of the last owner is custom metadata of the ledger's key. An owner stores its epoch there by
compare-and-set, if no later one is there, and recovers the ledger afterwards. A writer that finds itself fenced reads
this epoch: only a later one proves a later owner, because BookKeeper's auto recovery fences ledgers as well. The list
of a topic's ledgers says how many entries of a ledger count, and is changed under an epoch as with files.

`bookkeeper_storage` is the `LedgerStorage`. `bookie_writer` appends; `bookie_reader` reads, and gets counts and times
from the data of entries by a function of its user. `opened_bookies` finds the bookies by Pulsar's URI. `marks` are the
custom metadata, `storage_errors` the errors of the client as those of ledgers.
"""
