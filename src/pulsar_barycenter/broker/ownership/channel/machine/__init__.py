"""The state machine of a broker that owns bundles by records.

The state of a bundle has two parts: the role of this broker in the bundle's ownership record, and what this broker has
of the bundle (a term, topics, a lock). `bundle_states` reads both. The table `load.service_units.duties.DUTIES` has one
duty for each state: what this broker has to do. `settling` checks a bundle after each change, does the duty, and checks
again until there is none. So a broker that missed changes only needs to check the present state.

- The duties are implemented in `taking`, `giving` and `splitting`; `steps` has what they share.
- `requests` starts a change, and waits for its end.
- A record is valid in one life of its owner: from a registration to the end of the session. `own_life` is the life of
  this broker, `record_brokers` has those of other brokers.
- `term_guard` takes the number of a term. In a cluster with brokers that own by locks, `term_locks` does this, and a
  term also needs the bundle's lock.
"""
