"""Reads the decisions in a folder's logs by page, newest first: the question, and the page that answers it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from pulsar_barycenter.cluster_logs.decision_log import DecisionRecord
from pulsar_barycenter.cluster_logs.record_pages import LATEST_MS, Key, cursor_of, find, key_of, merged
from pulsar_barycenter.naming.bundle import MAX_HASH, Bundle, BundleRange
from pulsar_barycenter.naming.errors import InvalidNameError
from pulsar_barycenter.naming.topic import TopicName

_decode: Final = msgspec.json.Decoder(DecisionRecord).decode


class DecisionPage(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Decisions, oldest first. `next` is the cursor for older ones, "" if there are none.

    `known_since` and `known_until` are the times of the oldest and the newest of all stored decisions, selected or not,
    ms since 1970; both are 0 if no decision is stored. `silent` are the brokers that did not answer; decisions that
    only they store are missing.
    """

    decisions: list[DecisionRecord]
    next: str = ""
    known_since: int = 0
    known_until: int = 0
    silent: list[str] = []


@dataclass(frozen=True, slots=True)
class Span:
    """A range of hashes of a namespace, from `lower` to `last`, both inclusive: the range of a bundle, or only the hash
    of one topic.
    """

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
        """Return the span as the name of a bundle: the smallest range, in the form of a bundle's range, that contains
        the whole span.
        """
        lower = min(self.lower, MAX_HASH - 1)
        return f"{self.namespace}/{BundleRange(lower, min(MAX_HASH, self.last + 1))}"

    def is_covered_by(self, bundle: str) -> bool:
        """Return whether a bundle contains the whole span: the bundle of a topic, a bundle itself, or a bundle from
        which it was split.
        """
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
    """Selects decisions. Blank names select all. `since_ms` and `until_ms` are inclusive, ms since 1970.

    `covering` selects the decisions about bundles that contain the whole span. `before` is the cursor of a page: only
    decisions before it are selected.
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
    """Return the newest `question.limit` decisions that `question` selects, from the logs in `folder` and from
    `remembered`.

    A decision that is in both counts once. No file is read completely. Blocking; call it on a separate thread.
    """
    found = find(folder, question, remembered, _decode)
    return _page(found.records, found.cut, found.times)


def merged_pages(pages: Sequence[DecisionPage], limit: int, silent: Iterable[str] = ()) -> DecisionPage:
    """Merge the pages with which several brokers answered the same question into one page of the newest decisions, at
    most `limit`. `silent` are the brokers that did not answer.
    """
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
