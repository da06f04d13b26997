"""The parts of the control plane that depend on how a cluster is run, and the factory that chooses them.

Two choices are made when a broker starts. How bundles are owned follows from the kind of the load manager:
`ownership_way` is the contract, `lock_way` and `record_way` are the two ways. Who writes the metadata is a setting; its
modes are in `broker.cluster`. `parts` makes all parts for one choice of both, so that nothing after it asks which.

`leader_rounds` is what a leader has its load manager do again and again, and `membership_decisions` notes in the
decision log that a broker leads, or left.
"""
