"""Decisions without the values of their reasons: small enough to show hundreds of them on a page."""

from collections.abc import Iterable

import msgspec

from pulsar_barycenter.cluster_logs.decision_log import DecisionRecord
from pulsar_barycenter.html_pages.reasons import short_reason

MOST_DECISIONS = 1_000


class BriefDecision(msgspec.Struct, frozen=True, rename="camel", kw_only=True, omit_defaults=True):
    """A decision of the decision log; `sentence` is its whole reason as text, `short` a short form of it.

    `basis` is set for what `barycenter watch` saw from outside: what the reason is based on (`watch.why_moved`).
    `agrees` is whether a recomputed round would have done the same; None if that is not known, or does not apply.
    """

    at: int
    by: str
    number: int
    kind: str
    sentence: str
    short: str
    bundle: str = ""
    source: str = ""
    destination: str = ""
    refused: str = ""
    manager: str = ""
    strategy: str = ""
    basis: str = ""
    agrees: bool | None = None

    @property
    def decided_by(self) -> str:
        """What the reason is based on, as text, if `barycenter watch` saw the decision from outside; "" for a decision
        of the decision log.
        """
        return f"{self.basis}, does not agree" if self.agrees is False else self.basis


def brief(record: DecisionRecord) -> BriefDecision:
    return BriefDecision(
        at=record.at,
        by=record.by,
        number=record.number,
        kind=record.kind,
        sentence=record.sentence,
        short=short_reason(record.sentence),
        bundle=record.bundle,
        source=record.source,
        destination=record.destination,
        refused=record.refused,
        manager=record.manager,
        strategy=record.strategy,
    )


def merged(decisions: Iterable[BriefDecision], limit: int) -> list[BriefDecision]:
    """Return the newest `limit` decisions of several brokers, oldest first, without duplicates."""
    found = {(decision.at, decision.by, decision.number): decision for decision in decisions}
    return [found[key] for key in sorted(found)][-limit:] if limit else []
