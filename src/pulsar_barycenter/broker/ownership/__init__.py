"""Which bundles this broker owns, and how it proves that it may serve them.

Problem: two brokers must never acknowledge messages of the same bundle at the same time, also not after a network
failure or a stopped process. Rule: a broker serves a bundle in a *term* of ownership. A term has an epoch that is
higher than those of all earlier terms, and it ends before another broker can begin one. Ledgers are fenced by epoch, so
a broker that does not know that its term has ended cannot write.

Topics and connections use only `serving`: a term, and whether a receipt may be sent now. `term` withholds receipts
after the process was paused, and `holdings` has the states of a term. `local_terms` keeps the terms of this broker,
with their topics (`bundle_topics`) and the tasks that work on them.

There are two ways to own bundles: `by_locks` in the metadata store, and `channel`, by records that all brokers read.
Each is a state machine with a table of states. `contract` has their interface and that of ownership for the rest of the
broker; `bundle_owner` implements the second one with either state machine. `mixed_ownership` decides which brokers may
run in the same cluster.

- `locks` takes a bundle's lock and its epoch, with the proof that epochs grow; `record` is the value of a lock.
- `other_owners` caches the locks of other brokers.
- `own_namespaces` keeps the heartbeat and bootstrap namespaces owned.
- `serving_log` logs terms for an external checker; `handover_times` measures how long it takes to hand a bundle over.

`lookup` and `load_manager` decide which broker shall own a bundle.
"""
