"""What people have a cluster do: bundles moved to brokers that were chosen, each seen to be served there.

`plan` is what shall be moved, read from what `decide` prints, and whether it was; `journal` keeps what became of each
move, for the command that goes on after a crash, and the way back. `executor` carries a plan out, at a bounded rate,
and stops where the cluster does something else meanwhile. `draining` is which bundles leave a broker that shall be
empty, `drained` asks who is and changes it, and `bring_back` is what came away from such a broker and may return.
`admin_cluster` asks brokers of Barycenter or Apache Pulsar by their admin REST.

What to move is decided in `load`; questions and progress on terminals are `cli.operate`.
"""
