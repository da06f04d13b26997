"""The rules of a topic about its schemas."""

from dataclasses import dataclass

from pulsar_barycenter.broker.schemas.compatibility import Strategy


@dataclass(frozen=True, slots=True)
class SchemaRules:
    """The rules of a topic about its schemas. `strategy` is never UNDEFINED. `may_update`: a producer or consumer may
    add a version. `are_enforced`: a producer without a schema must not attach to a topic that has one.
    """

    strategy: Strategy = Strategy.FULL
    may_update: bool = True
    are_enforced: bool = False
