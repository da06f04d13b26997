"""What others measured on real clusters and published, to be replayed: one file an experiment, with an `EXPERIMENT`;
`experiment` says what that is. `chaos` is one of another kind, rounds without end.

Each names its source, the loads of brokers that were published, what was seen under which strategy, and the inequality
that a replay has to keep. docs/published-experiments.md has both side by side.
"""
