"""The state machine of a broker that owns bundles by records.

The state of a bundle has two parts: the role of this broker in its record, and what the broker holds of it.
`bundle_states` reads both. The table `load.service_units.duties.DUTIES` has one duty for each state. `settling` checks
a bundle after each change, does its duty, and checks again until there is none. So a broker that missed changes only
needs to check the present state.

- The duties are in `taking`, `giving` and `splitting`; `steps` is shared by them.
- `requests` starts a change, and waits for its end.
- A record counts for one life of its owner. `own_life` is that of this broker, `record_brokers` has those of others.
- `term_guard` takes the number of a term. In a cluster with brokers that own by locks, `term_locks` does this, and a
  term also needs the bundle's lock.
"""
