"""Bundles owned by locks in the metadata store: the way of the simple, modular and no-op load managers.

`lock_courses` is the table: what a broker does about a bundle, by the state of the bundle here and by what is asked.
`lock_ownership` is the machine that follows it; `hand_overs` names the request for which a bundle changes hands.

The lock itself, and the proof that epochs grow, are in `ownership.locks`, for the other way takes it at times, too.
"""
