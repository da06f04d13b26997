"""Derives where a topic or bundle was at a time, and why, from the decisions up to then. Pure."""

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
"""The number of last decisions about the subject that are used."""
_SHOWN: Final = 5


@dataclass(frozen=True, slots=True)
class Subject:
    """The subject of an explanation: `kind` is "topic", "bundle" or "broker". `span` is the hash of the topic or the
    hash range of the bundle; None for a broker.
    """

    kind: str
    name: str
    span: Span | None = None

    @staticmethod
    def of(text: str) -> "Subject":
        """Return what a name means: host:port is a broker, tenant/namespace/0x…_0x… a bundle, any other name a topic.

        Raises:
            InvalidNameError: the name is none of them.
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
    """The state of a topic, bundle or broker at a past time.

    For a topic or bundle: `last` is the last decision about it that was carried out, `before` the decision that was
    carried out before `last`. `bundle` is the bundle that `last` names: it contains the topic, or the bundle was split
    from it. `broker` is the owner after `last`, "" if there was no owner or it is not known. `refused` are the last
    decisions after `last` that were considered and not carried out.

    For a broker: `broker` is its own name, "" if no decision names it. `recent` are the last decisions by which bundles
    arrived at it or left it.

    `round` is the last decision that says what shedding found; None if there is none.
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
    """Return the state of `subject` at the time `at_ms` (epoch ms), as the decisions in `records` show it; decisions
    after that time do not count.
    """
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


def not_known(subject: Subject, at_ms: int, page: DecisionPage) -> str:
    """Return a sentence which says that nothing is known of the subject at that time, and from when to when the
    decisions in `page` are known.
    """
    known = "there are no decisions at all"
    if page.known_until:
        known = f"decisions are known from {_moment(page.known_since)} to {_moment(page.known_until)} UTC"
    return f"nothing is known of {subject.kind} {subject.name} at {_moment(at_ms)} UTC; {known}"


def in_words(state: PastState) -> list[str]:
    """Return lines of text that describe the past state."""
    head = f"{_moment(state.at)} UTC  {state.subject} {state.name}"
    if state.subject == "broker":
        lines = [head, *_block("last arrivals and departures", state.recent)]
    elif state.last is None:
        lines = [head, "  its owner is not known from the decisions"]
    else:
        where = f"on {state.broker}" if state.broker else "without an owner in the decisions"
        part = f", in {state.bundle}" if state.bundle != state.name and state.last.kind != "split" else ""
        part = f", a part of {state.bundle}" if state.last.kind == "split" else part
        lines = [f"{head}  {where}{part}, since {_moment(state.last.at)}", *_block("because", [state.last])]
        lines += _block("before that", [state.before] if state.before is not None else [])
    lines += _block("considered and not carried out", state.refused)
    lines += _block("the round at that time", [state.round] if state.round is not None else [])
    return lines


def _block(title: str, records: Sequence[DecisionRecord]) -> list[str]:
    lines = [f"{title}:"] if records else []
    for record in records:
        where = " → ".join(broker for broker in (record.source, record.destination) if broker)
        by = f"by {record.principal} at {record.by}" if record.principal else f"by {record.by}"
        parts = (_moment(record.at), record.outcome, record.bundle, where, by)
        lines.append("  " + "  ".join(filter(None, parts)))
        lines.append(f"      {record.sentence}")
        lines += [f"      {record.request}"] if record.request else []
    return lines


def _moment(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
