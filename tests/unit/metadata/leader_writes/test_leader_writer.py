"""The leader that writes for others: what it refuses, what it does in the next term, and what it removes."""

import asyncio
import random
import zlib
from collections.abc import AsyncIterator

import pytest

from pulsar_barycenter.metadata import errors
from pulsar_barycenter.metadata.coordination.epochs import epoch_path, read_epoch
from pulsar_barycenter.metadata.leader_writes.leader_writer import LeaderWriter
from pulsar_barycenter.metadata.leader_writes.leased_store import MAX_CONCURRENT_WRITES
from pulsar_barycenter.metadata.leader_writes.leased_values import leased, split_lease
from pulsar_barycenter.metadata.leader_writes.session_records import (
    LEASED_ROOT,
    SECRET_PATH,
    SESSIONS_ROOT,
    SessionRecord,
    session_of,
    session_path,
    session_value,
)
from pulsar_barycenter.metadata.leader_writes.session_table import LeaseTimes, SessionTable
from pulsar_barycenter.metadata.leader_writes.write_requests import (
    MAX_INFLATED_BYTES,
    MAX_VALUE_BYTES,
    Change,
    DeflatedPut,
    Failed,
    Put,
    Request,
    error_of,
    failed,
)
from pulsar_barycenter.metadata.memory.memory_store import MemoryStore
from pulsar_barycenter.metadata.store import MUST_NOT_EXIST, Guard, Notification
from support.leased_backend import LEADER, NUMBERS, SECRET, InLeased, Leader
from support.metadata_backends import eventually

STRANGER = "e" * 32


@pytest.fixture
async def cluster() -> AsyncIterator[InLeased]:
    cluster = InLeased()
    yield cluster
    await cluster.close()


def leader_of(cluster: InLeased) -> Leader:
    assert cluster.leader is not None
    return cluster.leader


def below(cluster: InLeased) -> MemoryStore:
    """The store below, as an operator sees it."""
    return cluster.shared.connect(None, 60_000)


async def test_a_leader_that_was_passed_writes_nothing_and_the_next_term_does(cluster: InLeased) -> None:
    client, operator = await cluster.connect(), below(cluster)
    first = leader_of(cluster).terms[0]
    await operator.put(epoch_path(LEADER), b'{"epoch":8,"brokerId":"another"}')
    stat = await client.put("/key", b"1")
    assert stat.version == 0
    assert [epoch.number for epoch in leader_of(cluster).terms] == [first.number, 9]


async def test_a_write_of_unknown_outcome_ends_the_term_so_that_it_cannot_come_late(cluster: InLeased) -> None:
    client, leader = await cluster.connect(), leader_of(cluster)
    leader.store._operation_timeout_s = 0.05
    cluster.shared.lose_answers(leader.store)
    with pytest.raises(errors.StoreUnavailableError):
        await client.put("/key", b"1", expected_version=MUST_NOT_EXIST)
    cluster.shared.lose_answers(leader.store, lost=False)
    assert (await client.put("/other", b"2")).version == 0
    assert len(leader.terms) > 1
    epoch = await read_epoch(leader.store, LEADER)
    assert epoch == leader.terms[-1]


async def test_the_next_leader_keeps_sessions_and_what_is_leased_to_them(cluster: InLeased) -> None:
    client, other = await cluster.connect(), await cluster.connect()
    await client.put("/locks/a", b"mine", ephemeral=True)
    await leader_of(cluster).lead()
    assert (await client.put("/locks/a", b"still", if_own=True)).created_by_self
    with pytest.raises(errors.OtherSessionError):
        await other.put("/locks/a", b"theirs", if_own=True)
    await client.close()
    assert await other.get("/locks/a") is None


async def test_what_is_leased_to_no_session_goes_and_numbers_that_were_drawn(cluster: InLeased) -> None:
    await cluster.connect()
    operator = below(cluster)
    leader_of(cluster).times = LeaseTimes(0.2)
    await operator.put("/locks/orphan", leased(STRANGER, b"1"))
    await operator.put("/locks/lasting", b"1")
    await operator.put(f"{NUMBERS}/ids/-0000000004", b"")
    await leader_of(cluster).lead()
    await eventually(lambda: _is_gone(operator, "/locks/orphan", f"{NUMBERS}/ids/-0000000004"))
    assert await operator.exists("/locks/lasting")


async def test_a_broker_that_is_silent_loses_its_session_and_its_keys(cluster: InLeased) -> None:
    await cluster.connect()
    operator = below(cluster)
    leader_of(cluster).times = LeaseTimes(0.2)
    await operator.put(session_path(STRANGER), session_value(SessionRecord("gone:8080")))
    await operator.put("/locks/of-the-dead", leased(STRANGER, b"1"))
    await leader_of(cluster).lead()
    await eventually(lambda: _is_gone(operator, "/locks/of-the-dead", session_path(STRANGER)))


async def test_a_record_says_how_long_its_broker_relies_on_it_and_its_mark_leaves_that(cluster: InLeased) -> None:
    client = await cluster.connect(session_timeout_ms=7_000)
    operator, session = below(cluster), client.session
    assert session is not None
    assert (await _session(operator, session)).lease_ms == 3_500
    await operator.put(session_path(STRANGER), session_value(SessionRecord("gone:8080", lease_ms=150)))
    leader_of(cluster).times = LeaseTimes(0.2)
    marked: list[SessionRecord] = []

    def see(change: Notification) -> None:
        record = cluster.shared.keys.get(session_path(STRANGER), session=None)
        if change.path == session_path(STRANGER) and record is not None:
            marked.append(session_of(record))

    operator.add_listener(see)
    await leader_of(cluster).lead()
    await eventually(lambda: _is_gone(operator, session_path(STRANGER)))
    assert marked == [SessionRecord("gone:8080", is_marked=True, lease_ms=150)]


async def _session(store: MemoryStore, session: str) -> SessionRecord:
    record = await store.get(session_path(session))
    assert record is not None
    return session_of(record)


async def test_the_next_leader_waits_for_a_lease_that_is_longer_than_its_own(
    cluster: InLeased, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = await cluster.connect(session_timeout_ms=30_000)
    found: list[tuple[str, int]] = []

    def hear(self: SessionTable, session: str, now_s: float, *, is_marked: bool, lease_ms: int) -> None:
        found.append((session, lease_ms))

    monkeypatch.setattr(SessionTable, "found", hear)
    leader_of(cluster).times = LeaseTimes(10.0)
    writer = await leader_of(cluster).lead()
    await eventually(lambda: _has_loaded(writer))
    assert found == [(client.session, 15_000)]


async def _has_loaded(writer: LeaderWriter) -> bool:
    return writer.is_ready


async def _is_gone(store: MemoryStore, *paths: str) -> bool:
    return not any([await store.exists(path) for path in paths])


async def test_nobody_has_the_leader_write_what_is_its_own_or_what_looks_leased(cluster: InLeased) -> None:
    client = await cluster.connect()
    for path in (SECRET_PATH, LEASED_ROOT, f"{SESSIONS_ROOT}/{STRANGER}"):
        with pytest.raises(errors.StoreRefusedError):
            await client.put(path, b"mine")
        with pytest.raises(errors.StoreRefusedError):
            await client.delete(path)
    with pytest.raises(errors.StoreRefusedError):
        await client.put("/key", leased(STRANGER, b""))
    for too_large in (random.Random(1).randbytes(MAX_VALUE_BYTES + 1), b"x" * (MAX_INFLATED_BYTES + 1)):
        with pytest.raises(errors.ValueTooLargeError):
            await client.put("/key", too_large)
    with pytest.raises(errors.StoreRefusedError):
        await client.put("/" + "x" * 5_000, b"")
    assert (await client.put("/key", b"x" * MAX_VALUE_BYTES)).version == 0


async def test_what_waits_for_its_turn_when_it_is_given_up_was_never_sent(
    cluster: InLeased, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = await cluster.connect()
    sent: list[Change] = []

    async def silent(session: str, number: int, over_below: int, change: Change) -> None:
        if isinstance(change, Put):
            sent.append(change)
        await asyncio.Event().wait()

    with monkeypatch.context() as patch:
        patch.setattr(client, "_ask_leader", silent)
        under_way = [
            asyncio.ensure_future(client.put(f"/key-{number}", b"")) for number in range(MAX_CONCURRENT_WRITES)
        ]
        await eventually(lambda: len(sent) == MAX_CONCURRENT_WRITES)
        patch.setattr(client, "_patience_s", 0.02)
        for _ in range(3):
            with pytest.raises(errors.StoreUnavailableError, match="not sent"):
                await client.put("/late", b"")
        assert len(sent) == MAX_CONCURRENT_WRITES
        for put in under_way:
            put.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)
    assert (await client.put("/key-0", b"")).version == 0


async def test_a_value_of_some_mebibytes_passes_deflated(cluster: InLeased) -> None:
    client = await cluster.connect()
    report = b"".join(b'"0x%08x": {}' % number for number in range(MAX_VALUE_BYTES // 8))
    stat = await client.put("/key", report, expected_version=-1, ephemeral=True)
    assert (stat.version, stat.ephemeral, stat.created_by_self) == (0, True, True)
    record = await client.get("/key")
    assert record is not None
    assert record.value == report


@pytest.mark.parametrize(
    "value",
    [b"no zlib", zlib.compress(b"x" * 100)[:-5], zlib.compress(b"x" * (MAX_INFLATED_BYTES + 1))],
    ids=["not valid zlib data", "cut short", "too large"],
)
async def test_what_does_not_inflate_is_not_written(cluster: InLeased, value: bytes) -> None:
    client = await cluster.connect()
    with pytest.raises(errors.InvalidValueError):
        await client._change("/key", DeflatedPut("/key", value))
    assert not await client.exists("/key")


async def test_a_guard_is_that_of_the_epoch_of_now_or_refused(cluster: InLeased) -> None:
    client, leader = await cluster.connect(), leader_of(cluster)
    await client.put("/key", b"1", guard=leader.terms[0].guard)
    await leader.lead()
    with pytest.raises(errors.GuardError):
        await client.put("/key", b"2", guard=leader.terms[0].guard)
    with pytest.raises(errors.GuardError):
        await client.delete("/key", guard=Guard("/key", 0))
    assert len(leader.terms) == 2
    stored = await client.get("/key")
    assert stored is not None
    assert stored.value == b"1"


async def test_who_does_not_know_the_secret_or_the_epoch_is_refused_and_who_comes_late(cluster: InLeased) -> None:
    client, leader = await cluster.connect(), leader_of(cluster)
    session, writer = client.session, leader.writer
    assert session is not None
    assert writer is not None
    number = writer.epoch.number
    change = Put("/key", b"1")
    for request in (
        Request("guessed", number, session, 100, 1, change),
        Request(SECRET, number + 1, session, 100, 1, change),
        Request(SECRET, number - 1, session, 100, 1, change),
        Request(SECRET, number, session, 100, 101, change),
        Request(SECRET, number, session, 100, 1, change),
    ):
        answer = await writer.answer(request)
        assert isinstance(answer, Failed)
        assert answer.kind == "not done"
        assert SECRET not in answer.detail
    stranger = await writer.answer(Request(SECRET, number, STRANGER, 1, 1, change))
    assert isinstance(stranger, Failed)
    assert stranger.kind == "session lost"
    assert not await client.exists("/key")
    assert not isinstance(await writer.answer(Request(SECRET, number, session, 101, 1, change)), Failed)


async def test_many_who_write_one_key_go_one_after_the_other(cluster: InLeased) -> None:
    clients = [await cluster.connect() for _ in range(3)]
    puts = [client.put("/key", b"", expected_version=MUST_NOT_EXIST) for client in clients for _ in range(5)]
    outcomes = await asyncio.gather(*puts, return_exceptions=True)
    assert sum(not isinstance(outcome, Exception) for outcome in outcomes) == 1
    assert all(isinstance(each, errors.BadVersionError) for each in outcomes if isinstance(each, Exception))


@pytest.mark.parametrize(
    "error",
    [
        errors.BadVersionError("/a", 1, None),
        errors.OtherSessionError("/a", 1, 2),
        errors.GuardError("/a", 1, 2),
        errors.NotFoundError("/a"),
        errors.HasChildrenError("/a"),
        errors.SessionLostError("/a", "over"),
        errors.InvalidPathError("a"),
        errors.InvalidValueError("/a", "none"),
        errors.StoreRefusedError("/a", "no"),
        errors.StoreUnavailableError("/a", "silent"),
    ],
)
def test_an_error_of_the_leader_is_the_same_error_for_who_asked(error: errors.MetadataError) -> None:
    again = error_of(failed(error))
    assert type(again) is type(error)
    assert getattr(again, "expected", None) == getattr(error, "expected", None)


def test_a_leased_value_names_its_session_and_any_other_lasts() -> None:
    assert split_lease(leased(STRANGER, b'{"a":1}')) == (STRANGER, b'{"a":1}')
    for value in (b"", b'{"a":1}', b'{"leasedTo":"short"}\n', b' {"leasedTo":"' + STRANGER.encode() + b'"}\n'):
        assert split_lease(value) == (None, value)
