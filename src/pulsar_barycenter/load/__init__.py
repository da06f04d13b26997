"""All decisions about load, with their reasons: pure functions of values, without a clock, files or an event loop.

A cluster balances itself only if operators trust it. They do if they can ask why a bundle moved, and what would happen
with other settings. So every decision is a function of a snapshot, settings, memory and random numbers, and returns a
reason with the numbers that it compared. The same functions serve the live leader (`broker.load_manager`),
`barycenter decide` (`snapshots`), virtual time (`replay`) and the pipeline.

Plain values first: `reasons` (why something was decided), `policies` (what administrators demand) and `decisions` (what
was decided). `sizing` counts the brokers that a load needs. `managers` lists the load managers, `installed` says
whether a broker can balance, `strategy` is the contract of all strategies. `growing_map` is an immutable map that is
cheap to extend, `regexes` matches users' regular expressions in linear time, `drain_notes` finds who drained a broker,
`moved_back` finds moves that came too soon, and `bundle_load` has the words for loads in table headers.

Then, in the order of a decision: `reports` (what brokers report, and its averages over time), `service_units` (the
records of ownership), `snapshot` (the load at one moment, as columns), `filters` (which brokers may own a bundle),
`shedding` (which bundles leave), `placement` (which broker gets a bundle), `splitting` (which bundles are split),
`selection` (filters and placement together), `simple` (the simple load manager), `strategy_plugins` and
`strategy_page` (strategies of other packages, and their pages), `strategies` (the catalogue of all strategies),
`rounds` (rounds of a leader) and `advice` (problems of a configuration).
"""
