"""What is built on a store's ephemeral and sequential keys, whichever store it is.

`locks` say who holds a path, `leader_election` who leads and `epochs` which term of a leader it is; `counter` hands out
numbers once. Each states its transitions as a table and what may never happen in its module's docstring. A lock and a
leader go on believing while the store cannot be asked, so whoever acts as one proves it at the point of effect, which
is left to him.

Source: Pulsar's `CoordinationService`.
"""
