"""Which bundles this broker owns, and the proof of it: locks, epochs, terms.

Read `serving` first: it is all that the data plane sees, a term of ownership and the question whether a receipt may be
sent. `term` acknowledges nothing after the process stood still, and `holdings` has the states that a term goes through.
`local_terms` owns the terms of this broker, the topics in them (`bundle_topics`) and the tasks that work on them.

There are two ways to own a bundle, each a state machine whose table is data: `by_locks`, and `channel`, by records that
all brokers read. `contract` says what the rest of a broker asks of ownership, and what that asks of a machine;
`bundle_owner` holds one machine and answers for it. `mixed_ownership` says which brokers may run beside each other.

`locks` shows how a bundle's lock and epoch are won (with the proof that epochs grow), `record` what the lock says, and
`other_owners` what is believed of the locks of others. `own_namespaces` keeps the heartbeat and bootstrap namespaces
owned, `serving_log` leaves what an outside checker needs, and `handover_times` measures how long handing over takes.

Who shall own a bundle is decided elsewhere: `lookup` and `load_manager`.
"""
