"""The decisions of a folder's logs, a page at a time from the newest back: what is asked for, and what is answered."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from pulsar_barycenter.logs.decision_log import DecisionRecord
from pulsar_barycenter.logs.record_pages import LATEST_MS, Key, cursor_of, find, key_of, merged
from pulsar_barycenter.naming.bundle import MAX_HASH, Bundle, BundleRange
from pulsar_barycenter.naming.errors import InvalidNameError
from pulsar_barycenter.naming.topic import TopicName

_decode: Final = msgspec.json.Decoder(DecisionRecord).decode


class DecisionPage(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Decisions, oldest first. `next` is the cursor for older ones, "" if there are none.

    `known_since` and `known_until` are when the oldest and the newest of all decisions kept was made, epoch ms,
    whatever was asked for; both 0 if none is kept. `silent` are the brokers that did not answer: what they alone keep
    is missing.
    """

    decisions: list[DecisionRecord]
    next: str = ""
    known_since: int = 0
    known_until: int = 0
    silent: list[str] = []


@dataclass(frozen=True, slots=True)
class Span:
    """Hashes from `lower` to `last`, both inclusive, of a namespace."""

    namespace: str
    lower: int
    last: int

    @staticmethod
    def of_topic(topic: TopicName) -> "Span":
        return Span(str(topic.namespace), topic.hash32, topic.hash32)

    @staticmethod
    def of_bundle(bundle: Bundle) -> "Span":
        last = bundle.range.upper if bundle.range.contains(bundle.range.upper) else bundle.range.upper - 1
        return Span(str(bundle.namespace), bundle.range.lower, last)

    def as_bundle(self) -> str:
        """Return the smallest bundle that has all of it: the same bundles cover both, unless they are smaller yet."""
        lower = min(self.lower, MAX_HASH - 1)
        return f"{self.namespace}/{BundleRange(lower, min(MAX_HASH, self.last + 1))}"

    def is_covered_by(self, bundle: str) -> bool:
        """Tell whether all of it lies in a bundle: a topic's, a bundle itself, or those that it was split from."""
        if not bundle.startswith(f"{self.namespace}/"):
            return False
        try:
            covering = Bundle.parse(bundle)
        except InvalidNameError:
            return False
        hashes = covering.range
        return str(covering.namespace) == self.namespace and hashes.contains(self.lower) and hashes.contains(self.last)


@dataclass(frozen=True, slots=True)
class DecisionQuestion:
    """Which decisions: blank names are not asked for, `since_ms` and `until_ms` are inclusive epoch ms.

    `covering` are those of bundles that have all of it. `before` is the cursor of a page: only older decisions.
    """

    bundle: str = ""
    namespace: str = ""
    broker: str = ""
    kind: str = ""
    covering: Span | None = None
    since_ms: int = 0
    until_ms: int = LATEST_MS
    before: Key | None = None
    limit: int = 100

    def wants(self, record: DecisionRecord) -> bool:
        if not self.since_ms <= record.at <= self.until_ms:
            return False
        if self.before is not None and key_of(record) >= self.before:
            return False
        if self.kind and record.kind != self.kind:
            return False
        if self.covering is not None and not self.covering.is_covered_by(record.bundle):
            return False
        return record.concerns(bundle=self.bundle, namespace=self.namespace, broker=self.broker)

    @property
    def latest_ms(self) -> int:
        return self.until_ms if self.before is None else min(self.until_ms, self.before[0])


def read_page(
    folder: Path | None, question: DecisionQuestion, remembered: Iterable[DecisionRecord] = ()
) -> DecisionPage:
    """Return the newest `question.limit` decisions that are wanted, of the logs in `folder` and of those `remembered`.

    What is both logged and remembered counts once. No file is read whole. Blocks; for a thread of its own.
    """
    found = find(folder, question, remembered, _decode)
    return _page(found.records, found.cut, found.times)


def merged_pages(pages: Sequence[DecisionPage], limit: int, silent: Iterable[str] = ()) -> DecisionPage:
    """Return one page of those that several brokers answered to the same question."""
    records, cut = merged([(page.decisions, page.next) for page in pages], limit)
    page = _page(records, cut, [at for page in pages for at in (page.known_since, page.known_until) if at])
    return msgspec.structs.replace(page, silent=sorted(silent))


def _page(records: list[DecisionRecord], cut: Key | None, times: Sequence[int]) -> DecisionPage:
    return DecisionPage(
        decisions=records,
        next="" if cut is None else cursor_of(cut),
        known_since=min(times, default=0),
        known_until=max(times, default=0),
    )
