"""Owners by messages of the ownership channel: which records count, and how the others are reported."""

import random
from collections.abc import Callable, Iterable
from typing import Any, cast

import msgspec
import pulsar
import pytest
from structlog.testing import capture_logs

from pulsar_barycenter.load.service_units.service_unit_state import (
    ServiceUnitState,
    ServiceUnitStateData,
    encode_record,
)
from pulsar_barycenter.naming.internal_topics import SERVICE_UNIT_STATE_TOPIC
from pulsar_barycenter.observer import ownership_topic
from pulsar_barycenter.observer.collector import OwnershipUnreadableError
from pulsar_barycenter.observer.ownership_topic import OwnershipRecords, OwnershipTopic

STATE = ServiceUnitState
BUNDLE = "t/n/0x00000000_0x40000000"
OTHER = "t/n/0x40000000_0x80000000"
THIRD = "t/n/0x80000000_0xffffffff"


def record(state: ServiceUnitState, version: int, dst: str | None = "a:1", source: str | None = None) -> bytes:
    return encode_record(ServiceUnitStateData(state, dst, source, version_id=version))


def owners_of(*messages: tuple[str, bytes], most: int = 100) -> tuple[dict[str, str], list[tuple[str, str]]]:
    """Return the owners after some messages, and keys and reasons of what was reported."""
    records = OwnershipRecords(set(), most=most)
    with capture_logs() as logged:
        for key, value in messages:
            records.take(key, value)
    assert {line["event"] for line in logged} <= {"ownership_record_ignored"}
    return records.owners(), [(line["key"], line["reason"]) for line in logged]


def test_a_bundle_belongs_to_whom_its_record_says_owns_it() -> None:
    owners, told = owners_of((BUNDLE, record(STATE.OWNED, 1, "a:1")), (OTHER, record(STATE.OWNED, 7, "b:1")))
    assert owners == {BUNDLE: "a:1", OTHER: "b:1"}
    assert told == []


@pytest.mark.parametrize(
    ("state", "dst", "source"),
    [
        (STATE.RELEASING, None, "a:1"),
        (STATE.RELEASING, "b:1", "a:1"),
        (STATE.SPLITTING, None, "a:1"),
    ],
)
def test_a_bundle_on_its_way_is_nobodys_until_somebody_owns_it(
    state: ServiceUnitState, dst: str | None, source: str | None
) -> None:
    begun = [(BUNDLE, record(STATE.OWNED, 1, "a:1")), (BUNDLE, record(state, 2, dst, source))]
    owners, told = owners_of(*begun)
    assert owners == {}
    assert told == [(BUNDLE, f"its state is {state}, so it has no owner now")]
    again, _ = owners_of(
        *begun, (BUNDLE, encode_record(ServiceUnitStateData(STATE.OWNED, "b:1", version_id=3, force=True)))
    )
    assert again == {BUNDLE: "b:1"}


def test_a_tombstone_takes_the_record_away_and_another_begins_anew() -> None:
    messages = [(BUNDLE, record(STATE.OWNED, 9)), (BUNDLE, b"")]
    assert owners_of(*messages)[0] == {}
    assert owners_of(*messages, (BUNDLE, record(STATE.OWNED, 1, "b:1")))[0] == {BUNDLE: "b:1"}


def test_of_two_records_the_one_counts_that_every_broker_keeps() -> None:
    """Two brokers published the second record of a bundle: the later one lost, and compaction has not run yet."""
    messages = [
        (BUNDLE, record(STATE.OWNED, 1, "a:1")),
        (BUNDLE, record(STATE.RELEASING, 2, "b:1", "a:1")),
        (BUNDLE, record(STATE.ASSIGNING, 3, "b:1", "a:1")),
        (BUNDLE, record(STATE.OWNED, 4, "b:1", "a:1")),
        (BUNDLE, record(STATE.OWNED, 3, "c:1")),
    ]
    assert owners_of(*messages)[0] == {BUNDLE: "b:1"}


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("", record(STATE.OWNED, 2, "x:1"), ""),
        ("no bundle", record(STATE.OWNED, 2, "x:1"), ""),
        ("t/n/" + "x" * 5_000, record(STATE.OWNED, 2, "x:1"), "the key of the message has 5,004 characters"),
        (BUNDLE, b"no JSON", "malformed"),
        (BUNDLE, b"\xff\xfe", ""),
        (BUNDLE, b"[" * 5_000, ""),
        (BUNDLE, b'{"state": "Owned"}', "has neither dstBroker nor sourceBroker"),
        (BUNDLE, b'{"state": "Merging", "dstBroker": "x:1", "versionId": 2}', "Invalid enum value 'Merging'"),
        (BUNDLE, b'{"state": "Owned", "dstBroker": "x:1", "versionId": "2"}', "Expected `int`"),
        (BUNDLE, b'{"state": "Owned", "dstBroker": "%b"}' % (b"x" * 3_000), "length <= 2048"),
        (BUNDLE, record(STATE.OWNED, 2, "x:1") + b" " * (1 << 20), "bytes"),
    ],
)
def test_what_cannot_be_read_is_told_once_and_changes_nothing(key: str, value: bytes, why: str) -> None:
    owners, told = owners_of((BUNDLE, record(STATE.OWNED, 1, "a:1")), (key, value), (key, value))
    assert owners == {BUNDLE: "a:1"}
    ((told_key, reason),) = told
    assert (told_key, why in reason) == (key[:200], True)
    assert len(reason) <= 200


def test_each_state_and_tombstones_are_told_once_for_all_bundles() -> None:
    releasing, free = record(STATE.RELEASING, 2, None, "a:1"), record(STATE.FREE, 3, None, "a:1")
    messages = [
        (key, each) for key in (BUNDLE, OTHER, THIRD) for each in (record(STATE.OWNED, 1), releasing, free, b"")
    ]
    _, told = owners_of(*messages)
    assert [reason.partition(",")[0] for _, reason in told] == [
        "its state is Releasing",
        "its state is Free",
        "a tombstone: the bundle has no record",
    ]


def test_no_more_bundles_are_kept_than_the_bound_and_those_that_are_go_on() -> None:
    messages = [(key, record(STATE.OWNED, 1)) for key in (BUNDLE, OTHER, THIRD)]
    moved = encode_record(ServiceUnitStateData(STATE.OWNED, "b:1", version_id=2, force=True))
    owners, told = owners_of(*messages, (THIRD, moved), (BUNDLE, moved), most=2)
    assert owners == {BUNDLE: "b:1", OTHER: "a:1"}
    assert told == [(THIRD, "there are more than 2 bundles")]


@pytest.mark.parametrize("seed", range(20))
def test_nothing_that_anybody_publishes_raises(seed: int) -> None:
    rng = random.Random(seed)
    values = [record(state, version, "a:1", "b:1") for state in STATE for version in (-(2**63), 0, 1, 2**63 - 1)]
    values += [b"", b"{}", b"null", b"0", msgspec.json.encode({"state": 1}), rng.randbytes(50)]
    messages = [(rng.choice((BUNDLE, OTHER, "x", "a/b/c/d", "t/n/0x1_0x0")), rng.choice(values)) for _ in range(300)]
    owners, _ = owners_of(*messages)
    assert set(owners.values()) <= {"a:1"}


# ---- by a client ----


class Reader:
    """Gives messages to a client that reads to the end of what is there."""

    def __init__(self, messages: Iterable[tuple[str, bytes]], *, endless: bool = False) -> None:
        self._messages = list(messages)
        self._endless = endless
        self.is_closed = False

    def has_message_available(self) -> bool:
        return bool(self._messages) or self._endless

    def read_next(self, timeout_ms: int) -> Any:
        if not self._messages:
            raise pulsar.Timeout
        key, value = self._messages[0] if self._endless else self._messages.pop(0)
        return type("Message", (), {"partition_key": lambda _: key, "data": lambda _: value})()

    def close(self) -> None:
        self.is_closed = True


def topic_of(make: Callable[[], Reader]) -> OwnershipTopic:
    class Client:
        def create_reader(self, topic: str, start: Any, **options: Any) -> Reader:
            assert (topic, start, options["is_read_compacted"]) == (
                SERVICE_UNIT_STATE_TOPIC,
                pulsar.MessageId.earliest,
                True,
            )
            return make()

    return OwnershipTopic(cast(pulsar.Client, Client()))


def test_all_that_is_there_is_read_each_time_and_told_but_once() -> None:
    """A message that was compacted away between two readings leaves nothing behind."""
    readers = [
        Reader([(BUNDLE, record(STATE.OWNED, 1)), ("x", b""), (OTHER, record(STATE.OWNED, 1))]),
        Reader([(OTHER, record(STATE.OWNED, 1)), ("x", b"")]),
    ]
    opened = iter(readers)
    topic = topic_of(lambda: next(opened))
    with capture_logs() as logged:
        assert topic.owners() == {BUNDLE: "a:1", OTHER: "a:1"}
        assert topic.owners() == {OTHER: "a:1"}
    assert [line["key"] for line in logged] == ["x"]
    assert all(reader.is_closed for reader in readers)


def test_a_topic_that_cannot_be_opened_or_read_to_its_end_gives_no_owners(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> Reader:
        raise pulsar.AuthorizationError

    with pytest.raises(OwnershipUnreadableError, match="cannot be read"):
        topic_of(refuse).owners()
    broken = Reader([], endless=True)
    with pytest.raises(OwnershipUnreadableError, match="failed before the end of the topic"):
        topic_of(lambda: broken).owners()
    endless = Reader([(BUNDLE, record(STATE.OWNED, 1))], endless=True)
    monkeypatch.setattr(ownership_topic, "MAX_MESSAGES", 5)
    with pytest.raises(OwnershipUnreadableError, match=r"not all ownership records in .* were read"):
        topic_of(lambda: endless).owners()
    assert broken.is_closed
    assert endless.is_closed
