"""A problem that balancing cannot solve: a sentence with its values, and what to do."""

import enum

import msgspec


class Kind(enum.StrEnum):
    TOPIC = "topic"
    """A single topic has more load than the fair share of a broker."""
    NAMESPACE = "namespace"
    """A namespace has too few bundles for its traffic."""
    BROKER = "broker"
    """A broker differs from the others."""
    CAPACITY = "capacity"
    """All brokers together have too little capacity, or only just enough."""
    REPORTS = "reports"
    """The load is not known, because reports are missing."""


class AdviceFinding(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A problem that the recorded history shows and that no setting solves, such as a topic that is too large.
    `sentence` says what it is, `mend` what to do. `figures` are the values that the sentence names; loads and shares
    are fractions of a broker.
    """

    kind: Kind
    subject: str
    sentence: str
    mend: str
    figures: dict[str, float]
