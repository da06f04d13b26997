"""Reads the serving logs of brokers and proves that no two terms of overlapping bundles acknowledged at once."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pulsar_barycenter.naming.bundle import Bundle


@dataclass(frozen=True, slots=True)
class Term:
    """One term of serving. The acknowledgement times (ms since 1970) are None if it acknowledged nothing, or if its
    broker was killed before it could log them."""

    broker: str
    bundle: Bundle
    epoch: int
    acquired_at_ms: int
    ended_at_ms: int | None
    first_acknowledged_ms: int | None
    last_acknowledged_ms: int | None

    def overlaps(self, other: "Term") -> bool:
        mine, theirs = self.bundle.range, other.bundle.range
        same = self.bundle.namespace == other.bundle.namespace
        return same and mine.lower < theirs.upper and theirs.lower < mine.upper


def read_terms(logs: Iterable[Path]) -> list[Term]:
    """Return the terms in the given log files, by epoch."""
    terms: dict[tuple[str, str, int], Term] = {}
    for log in logs:
        for line in log.read_text().splitlines():
            if '"serving_' not in line:
                continue
            entry = json.loads(line)
            term = Term(
                broker=entry["broker"],
                bundle=Bundle.parse(entry["bundle"]),
                epoch=entry["epoch"],
                acquired_at_ms=entry["acquired_at_ms"],
                ended_at_ms=entry.get("ended_at_ms"),
                first_acknowledged_ms=entry.get("first_acknowledged_ms"),
                last_acknowledged_ms=entry.get("last_acknowledged_ms"),
            )
            terms[entry["broker"], entry["bundle"], entry["epoch"]] = term
    return sorted(terms.values(), key=lambda term: term.epoch)


def conflicts(terms: list[Term]) -> list[tuple[Term, Term]]:
    """Return the pairs in which the later term began to acknowledge before the earlier had stopped."""
    found = []
    for index, earlier in enumerate(terms):
        for later in terms[index + 1 :]:
            if not earlier.overlaps(later) or (earlier.bundle == later.bundle and earlier.epoch == later.epoch):
                continue
            if earlier.last_acknowledged_ms is None or later.first_acknowledged_ms is None:
                continue
            if later.first_acknowledged_ms < earlier.last_acknowledged_ms:
                found.append((earlier, later))
    return found
