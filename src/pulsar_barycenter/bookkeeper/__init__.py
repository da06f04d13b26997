"""A client of Apache BookKeeper: ledgers whose entries are on several bookies, and survive the loss of some.

Problem. A bookie is a server that stores entries by (ledger, entry). It can be told to refuse further adds to a ledger
(fencing). It knows nothing of quorums. Clients decide when an entry is safe, who may write, and where a ledger ends.
Clients share only the keys of a metadata store, and each client may be paused, cut off or killed at any moment.

Rules. A client reports an entry as confirmed when enough bookies of the entry's segment have it, and all entries before
it. A client that takes over another client's ledger first fences so many bookies that no later add can be confirmed.
Then it adds again the entries that it finds, and closes the ledger. Every change of a ledger's metadata is a
compare-and-set from a state that was read. An entry that may have been stored is sent again byte for byte, or the
ledger ends before that entry. If the digest of an entry does not match, only the replica that was read is damaged.

`wire` has the packets and the bytes of entries, `metadata` the keys and values of the metadata store. `machines` decide
without I/O how a ledger is written, recovered and closed. `client` has the connections and the interface for programs.
`errors` has the exceptions.

This package knows nothing of topics and brokers.

Source: `org.apache.bookkeeper.client`, release 4.17.3.
"""
