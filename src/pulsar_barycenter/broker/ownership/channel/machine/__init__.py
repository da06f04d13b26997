"""The state machine of a broker that owns bundles by records.

The state of a bundle is what its record makes of this broker (a role) and what the broker holds of it; `bundle_states`
reads both. The table is `load.service_units.duties.DUTIES`: it names one duty for each state. `settling` looks at a
bundle whenever something changed, has the duty done, and looks again until there is none. The duties are in `taking`,
`giving` and `splitting`; `steps` is what they have in common. `requests` has a change begun, and waits for its end.

A record counts for one life of its broker: `own_life` is that of this one, with the numbers taken in it, and
`record_brokers` knows those of the others. `term_guard` gives a term its number. Beside brokers that own by locks
`term_locks` stands in its place, and a term needs the bundle's lock as well.
"""
