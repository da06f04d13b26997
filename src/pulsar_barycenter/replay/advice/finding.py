"""What no balancing can mend: one finding says what is so, with its figures, and what to do."""

import enum

import msgspec


class Kind(enum.StrEnum):
    TOPIC = "topic"
    """A topic alone asks more than a broker's fair share."""
    NAMESPACE = "namespace"
    """A namespace has too few bundles for its traffic."""
    BROKER = "broker"
    """A broker differs from the others."""
    CAPACITY = "capacity"
    """All brokers together have too little, or no more than enough."""
    REPORTS = "reports"
    """Load is not known because reports lack."""


class AdviceFinding(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """`figures` are those of the sentence, by name: loads and shares as fractions of a broker."""

    kind: Kind
    subject: str
    sentence: str
    mend: str
    figures: dict[str, float]
