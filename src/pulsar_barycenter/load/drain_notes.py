"""Who drained each broker, when and why, from the note of the last change of DRAINED_KEY.

Only the note of the last change is stored, but a change adds and removes only some of the names. So its note keeps, in
`NotedChange.earlier`, who added the names that it left unchanged. For names that it added, the note itself says so.

Worked example: alice drains a, bob drains b, carol undrains a. The note of carol's change has `before` "a,b", `value`
"b" and `earlier` {"b": bob's change}.
"""

from typing import Final

import msgspec

from pulsar_barycenter.config.sources import EarlierChange, NotedChange
from pulsar_barycenter.load.policies import drained_names

LONGEST_EARLIER_WHY: Final = 500
"""The length to which a later change shortens a reason, in characters."""


def drained_by(change: NotedChange, broker: str) -> EarlierChange | None:
    """Return who drained `broker`, when and why, according to `change`, the note of the last change of DRAINED_KEY.
    None if `broker` is not drained after this change, or if the notes do not say who drained it.
    """
    if broker in drained_names(change.before):
        return change.earlier.get(broker)
    if broker not in drained_names(change.value or ""):
        return None
    return EarlierChange(by=change.by, at=change.at, why=change.why, request_id=change.request_id)


def with_earlier(change: NotedChange, previous: NotedChange | None) -> NotedChange:
    """Return `change`, the note of a change of DRAINED_KEY, together with who drained the brokers that were drained
    before the change and stay drained after it.

    `previous` is the note of the change before `change`; None: return `change` as it is. A broker is omitted if
    `previous` does not say who drained it. The reasons that persons gave are cut to LONGEST_EARLIER_WHY characters. If
    `change` removes the dynamic value of the key, all brokers stay drained until they restart.
    """
    if previous is None:
        return change
    before = drained_names(change.before)
    left = before if change.value is None else set(before).intersection(drained_names(change.value))
    found = {broker: drained_by(previous, broker) for broker in sorted(left)}
    earlier = {
        broker: msgspec.structs.replace(drained, why=drained.why[:LONGEST_EARLIER_WHY])
        for broker, drained in found.items()
        if drained is not None
    }
    return msgspec.structs.replace(change, earlier=earlier)
