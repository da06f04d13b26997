"""What a leader would do, and why: `decide` upon a snapshot, `explain` a bundle or broker, keep a `snapshot`.

`running_cluster` asks one by its admin REST, `decision_tables` prints decisions for people and as JSON. Reading
snapshots, and the rounds upon them, are `barycenter.snapshots`; the words of a reason come with it, from
`load.reasons`.
"""
