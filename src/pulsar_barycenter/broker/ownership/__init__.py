"""Which bundles this broker owns, and the proof of it: locks, epochs, terms.

Read `serving` first: it is all that the data plane sees, a term of ownership and the question whether a receipt may be
sent. Then `locks`, how a bundle's lock and epoch are won (with the proof that epochs grow), `record`, what the lock
says, and `term`, which acknowledges nothing after the process stood still. `holdings` is the machine of states of the
bundles held here, and `cache` drives it: acquire, release, split, loss of the session. `other_owners` is what is
believed of the locks of others, `own_namespaces` keeps the heartbeat and bootstrap namespaces owned, `serving_log`
leaves what an outside checker needs, `handover_times` how long handing over took, and `hand_overs` lets the next owner
know for which request it is one.

That is one way of owning bundles. The other, by records that all brokers read, is `channel`; `contract` is what the
rest of a broker asks of either, `bundle_owner` what both have in common, and `mixed_ownership` says which brokers may
run beside each other.

Who shall own a bundle is decided elsewhere: `lookup` and `load_manager`.
"""
