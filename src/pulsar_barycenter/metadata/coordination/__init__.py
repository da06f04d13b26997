"""Locks, leader election, leader epochs and counters, built on the ephemeral and sequential keys of any store.

Problem. Two brokers must not act as owner of one bundle, or as leader. But a broker may be paused between a check and
an action, so no lock alone can prevent it.

Rules. `locks` record which session holds a path. `leader_election` records which session leads, and `epochs` the number
of the leader's term. `counter` returns each number only once. The modules have their state transitions as a table, and
their docstrings say what must never happen. A lock and a leader stay valid while the store does not answer. So a caller
has to prove at the target of its action that it still is the owner or the leader: by a version, an epoch, or a fenced
ledger.

Source: Pulsar's `CoordinationService`.
"""
