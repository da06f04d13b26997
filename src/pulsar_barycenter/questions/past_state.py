"""Where a topic, bundle or broker was at a time, and why, as the decisions made by then tell it. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import msgspec

from pulsar_barycenter.cluster_logs.decision_log import DecisionRecord
from pulsar_barycenter.cluster_logs.decision_pages import DecisionPage, DecisionQuestion, Span
from pulsar_barycenter.cluster_logs.record_pages import key_of
from pulsar_barycenter.naming.bundle import Bundle
from pulsar_barycenter.naming.errors import InvalidNameError
from pulsar_barycenter.naming.topic import TopicName

_DECISIONS: Final = 50
"""Decisions looked at of the thing itself: the last ones before the time."""
_SHOWN: Final = 5


@dataclass(frozen=True, slots=True)
class Subject:
    """What is asked about: `kind` is topic, bundle or broker; `span` are its hashes, None of a broker."""

    kind: str
    name: str
    span: Span | None = None

    @staticmethod
    def of(text: str) -> "Subject":
        """Return what a name is of: host:port a broker, tenant/namespace/0x…_0x… a bundle, else a topic.

        Raises:
            InvalidNameError: it can be none of them.
        """
        if "://" not in text and "/" not in text and ":" in text:
            return Subject("broker", text)
        try:
            bundle = Bundle.parse(text)
        except InvalidNameError:
            topic = TopicName.parse(text)
            return Subject("topic", str(topic), Span.of_topic(topic))
        return Subject("bundle", str(bundle), Span.of_bundle(bundle))

    def question(self, at_ms: int) -> DecisionQuestion:
        broker = self.name if self.kind == "broker" else ""
        return DecisionQuestion(covering=self.span, broker=broker, until_ms=at_ms, limit=_DECISIONS)


class PastState(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """What is known of a time. `broker` is where the thing was, "" if that is not known or it was nobody's; `bundle`
    the topic's of then, or what it was last split from.

    `last` is what put it there, `before` the one before that; `refused` what was considered since and not done, the
    last ones. `round` is the outcome of shedding that held then. Of a broker, `recent` are the last bundles that came
    or went.
    """

    kind: str = "then"
    at: int
    subject: str
    name: str
    bundle: str = ""
    broker: str = ""
    last: DecisionRecord | None = None
    before: DecisionRecord | None = None
    refused: list[DecisionRecord] = []
    recent: list[DecisionRecord] = []
    round: DecisionRecord | None = None


def state_at(subject: Subject, at_ms: int, records: Iterable[DecisionRecord]) -> PastState:
    """Return what decisions say of a time; those made after it do not count."""
    known = sorted((record for record in records if record.at <= at_ms), key=key_of)
    rounds = [record for record in known if record.kind == "shed"]
    about = [record for record in known if record.kind != "shed"]
    round_then = rounds[-1] if rounds else None
    if subject.span is None:
        mine = [record for record in about if subject.name in (record.source, record.destination)]
        moved = [record for record in mine if record.kind != "refuse"]
        return PastState(
            at=at_ms,
            subject=subject.kind,
            name=subject.name,
            broker=subject.name if mine else "",
            refused=[record for record in mine if record.kind == "refuse"][-_SHOWN:],
            recent=moved[-_SHOWN:],
            round=round_then,
        )
    mine = [record for record in about if subject.span.is_covered_by(record.bundle)]
    moved = [record for record in mine if record.kind != "refuse"]
    last = moved[-1] if moved else None
    since_ms = last.at if last is not None else 0
    return PastState(
        at=at_ms,
        subject=subject.kind,
        name=subject.name,
        bundle=last.bundle if last is not None else "",
        broker="" if last is None else last.source if last.kind == "split" else last.destination,
        last=last,
        before=moved[-2] if len(moved) > 1 else None,
        refused=[record for record in mine if record.kind == "refuse" and record.at >= since_ms][-_SHOWN:],
        round=round_then,
    )


def known_range(page: DecisionPage) -> str:
    """Say from when to when there are decisions."""
    if not page.known_until:
        return "no decision is kept there at all"
    return f"decisions are known from {_moment(page.known_since)} to {_moment(page.known_until)} UTC"


def in_words(told: PastState) -> list[str]:
    """Return the lines that a person reads."""
    head = f"{_moment(told.at)} UTC  {told.subject} {told.name}"
    if told.subject == "broker":
        lines = [head, *_block("last came or went", told.recent)]
    elif told.last is None:
        lines = [head, "  no decision tells where it was"]
    else:
        place = f"on {told.broker}" if told.broker else "with no broker that a decision tells"
        part = f", in {told.bundle}" if told.bundle != told.name and told.last.kind != "split" else ""
        part = f", a part of {told.bundle}" if told.last.kind == "split" else part
        lines = [f"{head}  {place}{part}, since {_moment(told.last.at)}", *_block("because", [told.last])]
        lines += _block("before that", [told.before] if told.before is not None else [])
    lines += _block("considered and not done", told.refused)
    lines += _block("the round then", [told.round] if told.round is not None else [])
    return lines


def _block(title: str, records: Sequence[DecisionRecord]) -> list[str]:
    lines = [f"{title}:"] if records else []
    for record in records:
        where = " → ".join(each for each in (record.source, record.destination) if each)
        what = f"{record.kind} {record.refused}".strip()
        by = f"by {record.principal} at {record.by}" if record.principal else f"by {record.by}"
        lines.append("  " + "  ".join(each for each in (_moment(record.at), what, record.bundle, where, by) if each))
        lines.append(f"      {record.sentence}")
        lines += [f"      {record.request}"] if record.request else []
    return lines


def _moment(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
