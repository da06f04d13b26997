"""The parts of a broker's control plane that differ with how bundles are owned and who writes metadata, and the factory
that creates them.

Two choices are made when a broker starts: how bundles are owned (by the kind of the load manager), and which broker
writes metadata (a setting; `broker.cluster` has its modes). Code that asked for these choices everywhere would be hard
to follow. So `parts` creates all parts for one combination, and no other code asks.

- `ownership_way` is the interface of a way to own bundles; `lock_way` and `record_way` are the two ways.
- `leader_rounds` are the periodic duties of the leader's load manager.
- `membership_decisions` adds to the decision log that a broker became leader, or left.
"""
