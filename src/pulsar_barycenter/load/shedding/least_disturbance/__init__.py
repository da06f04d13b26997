"""LeastDisturbance: the round as one assignment problem, the smallest disturbance that brings brokers within a band.

`settings` and `alignment` first; then what is known, `bundle_loads` of bundles and `usage_lines` of brokers, both of
which go from round to round; `prediction`, what the two together say; `assignment`, which finds the moves; `verdicts`,
which say why; and `least_disturbance`, the strategy, that calls them one after the other.
`best_usage` runs the search without patience: the most even usage that moves can reach.
"""
