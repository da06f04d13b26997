"""Published measurements of real clusters, to be replayed: one file for each experiment, with an `EXPERIMENT`.

`experiment` defines an experiment: its source, the published loads of brokers, the observation under each strategy, and
the inequality that a replay must satisfy. `chaos` is different: an endless random sequence of rounds.
docs/published-experiments.md shows published and replayed values side by side.
"""
