"""Ownership by locks in the metadata store: for the simple, modular and no-op load managers.

The broker that has the lock of a bundle owns it. So a bundle changes its owner in two independent steps: one broker
releases the lock, and another one takes it at the next look-up.

- `lock_courses` is a table: what a broker does with a bundle, by the bundle's state on this broker and the request.
- `lock_ownership` is the state machine that uses it.
- `hand_overs` publishes the request for which a bundle changes its owner, for the log.

The lock itself and the proof that epochs grow are in `ownership.locks`, because ownership by records may use locks,
too.
"""
