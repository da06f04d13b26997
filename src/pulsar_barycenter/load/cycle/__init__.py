"""A whole round of a leader: what leaves, and where each bundle goes.

`round` holds the one loop, which a live leader drives with awaits and everybody else with "carried out".
`destinations` chooses where bundles go by policies, filters and placement strategy; `simple_destinations` as the simple
load manager does.

`told_rounds` runs rounds upon a snapshot as a leader would, and tells them in the lines of `decided`; nothing is
carried out. `balance` says how evenly brokers are used, and how evenly they could be, whatever strategy is in force.

What is shed is decided in `shedding`, carrying out is for `broker.load_manager`.
"""
