"""Locks, leader election, leader epochs and counters, built on the ephemeral and sequential keys of any store.

Problem. Two brokers must not act as owner of one bundle, or as leader. But a broker may be paused between a check and
an action, so no lock alone can prevent it.

Rules. `locks` record which session holds a path, `leader_election` which one leads, `epochs` the number of a leader's
term; `counter` returns each number only once. Each module has its transitions as a table, and its docstring says what
must never happen. A lock and a leader stay valid while the store does not answer. So a caller has to prove its right
again where its action takes effect: by a version, an epoch, or a fenced ledger.

Source: Pulsar's `CoordinationService`.
"""
