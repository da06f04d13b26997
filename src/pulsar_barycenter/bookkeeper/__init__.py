"""A client of Apache BookKeeper: ledgers whose entries are on several bookies, and survive the loss of some.

Problem. A bookie stores entries by (ledger, entry) and can be told to refuse further adds to a ledger; it knows nothing
of quorums. What an entry needs to be safe, who may write, and where a ledger ends is the work of clients. They share
only the keys of a metadata store, and each of them may be paused, cut off or killed at any moment.

Rules. An entry is reported when enough bookies of its stored segment have it, and all entries before it. Whoever takes
a ledger over first fences enough of its bookies that no later add can be reported, then adds again what it finds, then
closes it. Every change of a ledger's key is a compare-and-set from a state that was read. What may have been stored is
sent again byte for byte, or the ledger ends before it. Bytes whose digest does not match are an error of that replica.

`wire` has the packets and the bytes of entries, `metadata` the keys and values of the metadata store. Both know no
ledger's life; that is in `machines`, which decide without I/O. `client` has the connections, and what programs call.
`errors` has what can fail.

This package knows nothing of topics and brokers.

Source: `org.apache.bookkeeper.client`, release 4.17.3.
"""
