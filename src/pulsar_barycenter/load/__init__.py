"""What is decided about load, and why: pure functions of values, without a clock, a file or a loop.

Everything starts from three files of plain values: `reasons` (why something was decided, with the numbers compared),
`policies` (what administrators demand) and `decisions` (what is decided). `managers` and `strategy` say what load
managers there are and what every strategy is; `growing_map` is a map that is a value, and `regexes` are those of users,
matched in linear time. `drain_notes` says who drained each broker, by the note of the last change. `bundle_load` has
the words for the load of a bundle in headers. `moved_back` says which moves of a bundle came too soon.

Then in order: `reports` (what brokers tell, and the windows made of it), `service_units` (who owns what by records),
`snapshot` (the load at one moment, as columns), `filters` (who may own a bundle), `shedding` (what leaves), `placement`
(who gets it), `splitting` (what is divided), `selection` (filters and placement in a row), `simple` (all of it as the
simple load manager does it), `strategies` (the one catalogue), `cycle` (a whole round) and `advice` (what is wrong with
a configuration).

The same functions serve the live leader (`broker.load_manager`), `barycenter decide` (`snapshots`), virtual time
(`replay`) and the pipeline.
"""
