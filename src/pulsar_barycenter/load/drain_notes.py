"""Who drained each broker, when and why, by the note of the last change of DRAINED_KEY.

A change adds and removes some of the names. Its note therefore keeps, in `NotedChange.earlier`, who added those that it
left in; of those that it added it is the note itself.

Worked example: alice drains a, bob drains b, carol undrains a. The note of carol's change has `before` "a,b", `value`
"b" and `earlier` {"b": bob's}.
"""

from typing import Final

import msgspec

from pulsar_barycenter.config.sources import EarlierChange, NotedChange
from pulsar_barycenter.load.policies import drained_names

LONGEST_EARLIER_WHY: Final = 500
"""Characters of a reason that a later change keeps."""


def drained_by(change: NotedChange, broker: str) -> EarlierChange | None:
    """Return who drained a broker, when and why, as the last change of DRAINED_KEY tells; None if it does not."""
    if broker in drained_names(change.before):
        return change.earlier.get(broker)
    if broker not in drained_names(change.value or ""):
        return None
    return EarlierChange(by=change.by, at=change.at, why=change.why, request_id=change.request_id)


def with_earlier(change: NotedChange, previous: NotedChange | None) -> NotedChange:
    """Return the note of a change of DRAINED_KEY with who drained the brokers that it left drained.

    `previous` is the note of the change before. A broker that it does not name was drained without a note, and is left
    out. A reason is cut at LONGEST_EARLIER_WHY. Without an override all stay drained until brokers restart.
    """
    if previous is None:
        return change
    before = drained_names(change.before)
    left = before if change.value is None else set(before).intersection(drained_names(change.value))
    found = {broker: drained_by(previous, broker) for broker in sorted(left)}
    earlier = {
        broker: msgspec.structs.replace(each, why=each.why[:LONGEST_EARLIER_WHY])
        for broker, each in found.items()
        if each is not None
    }
    return msgspec.structs.replace(change, earlier=earlier)
