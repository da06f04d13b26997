"""What a client of ledgers decides, as state machines without I/O, clock or randomness.

A machine takes what happened (an answer of a bookie, the result of a compare-and-set) and returns `actions`: what to
send, what to store, what to report. Answers of bookies may be reordered, repeated or lost: that costs progress, never
safety. A request without an answer is a failure to the machine, although it may have been carried out. Each request to
the metadata store is reported once; one whose outcome is unknown is reported as failed.

`add_window` counts who has the entries that are not confirmed yet. `entry_read` asks for one entry, bookie by bookie.
`last_confirmed` asks all bookies of a segment for their last entry, and knows whether the answers cover the ledger.
`writer` is the life of a ledger under its writer, `recovery` that under a client that takes it over. `placement`
chooses bookies for a new ledger, and for those that failed.
"""
