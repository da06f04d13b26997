"""LeastDisturbance: single moves by their price; where these do not help, the least disturbance within a band.

Other strategies compare brokers by what they report now, and move bundles until the comparison holds. That moves
bundles for noise, overshoots where brokers differ in strength, and forgets bundles that are still on their way. This
strategy predicts the usage of each broker instead: it estimates the load of each bundle twice, by the last minutes and
by a longer time, learns for each broker how usage follows from load, and moves bundles only if both estimates agree.
Of the moves that help it prefers those that disturb the fewest clients.

- `least_disturbance_settings`: what can be configured, and the constants that follow from it.
- `bundle_loads` and `usage_lines`: what is known of bundles and of brokers; both are carried from round to round.
  `alignment` maps the rows of one round to those of the next.
- `prediction`: the usage of each broker, and the usage that it can reach.
- `givers`: the bundles that a broker may give, and what moving each costs.
- `unevenness`: what a single move gains, and when it is worth its price.
- `assignment`: the search for the moves. `roomiest` finds the broker with the most room.
- `budget`: how many moves a round may make.
- `verdicts`: the plan with its reasons.
- `newest_load`: whether a planned move still helps by reports that came after the decision.
- `least_disturbance`: the strategy, which calls these in order.
- `best_usage`: the same search without patience, for the most even usage that moves could reach.
"""
