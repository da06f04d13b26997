"""Rounds of a leader: which bundles leave, and where each of them goes.

A live leader, `barycenter decide` and a replay must make the same decisions on the same data, or operators could not
trust a preview. So there is one loop, a generator in `round`: it yields each unload and receives its result. A live
leader awaits the owner before it answers, all others answer "carried out".

`destinations` chooses destinations by policies, filters and the placement strategy, `simple_destinations` as the simple
load manager does. `snapshot_rounds` runs rounds on a snapshot, without carrying anything out, and returns their
decisions as lines, which `decided` defines. `balance` measures how evenly brokers are used, and how evenly they could
be, whichever strategy is configured.

`shedding` decides which bundles leave; `broker.load_manager` carries out the decisions.
"""
