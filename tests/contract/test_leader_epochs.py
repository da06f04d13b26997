"""Guarded writes, and the epochs of leaders that are built on them: each test runs on each metadata store."""

import asyncio
from typing import Any

import pytest

from pulsar_barycenter.metadata.coordination.epochs import (
    MAX_EPOCH,
    Epoch,
    EpochGate,
    FencedStore,
    Predecessor,
    announce_release,
    epoch_path,
    read_epoch,
    release_path,
    take_epoch,
)
from pulsar_barycenter.metadata.errors import (
    BadVersionError,
    FormerEpochError,
    GuardError,
    InvalidValueError,
    NotFoundError,
    NotLeadingError,
    SessionLostError,
    StoreUnavailableError,
)
from pulsar_barycenter.metadata.store import MUST_NOT_EXIST, Guard, Notification, NotificationType
from support.metadata_backends import Heard, eventually

LEADER = "/lead"


async def test_a_guarded_write_happens_while_its_guard_holds_by_the_rules_of_any_write(store):
    await store.put("/guard", b"")
    guard = Guard("/guard", 0)
    created = await store.put("/a/b/key", b"1", guard=guard)
    assert (created.path, created.version, created.ephemeral) == ("/a/b/key", 0, False)
    assert (await store.put("/a/b/key", b"2", guard=guard)).version == 1
    assert (await store.put("/a/b/key", b"3", expected_version=1, guard=guard)).version == 2
    assert (await store.put("/new", b"", expected_version=MUST_NOT_EXIST, guard=guard)).version == 0
    assert (await store.put("/mine", b"", ephemeral=True, guard=guard)).ephemeral
    assert (await store.put("/mine", b"1", if_own=True, guard=guard)).created_by_self
    with pytest.raises(BadVersionError) as refused:
        await store.put("/a/b/key", b"4", expected_version=1, guard=guard)
    assert (refused.value.path, refused.value.actual) == ("/a/b/key", 2)
    with pytest.raises(NotFoundError):
        await store.delete("/missing", guard=guard)
    await store.delete("/new", expected_version=0, guard=guard)
    assert not await store.exists("/new")


async def test_a_write_whose_guard_does_not_hold_changes_nothing_whatever_else_it_expects(store):
    """And no listener is notified."""
    await store.put("/guard", b"")
    await store.put("/key", b"1")
    await store.put("/mine", b"1", ephemeral=True)
    await store.put("/guard", b"")
    heard, guard = Heard.changes(store), Guard("/guard", 0)
    for write in (
        lambda: store.put("/key", b"2", guard=guard),
        lambda: store.put("/key", b"2", expected_version=0, guard=guard),
        lambda: store.put("/key", b"2", expected_version=MUST_NOT_EXIST, guard=guard),
        lambda: store.put("/new", b"2", guard=guard),
        lambda: store.put("/new", b"2", expected_version=MUST_NOT_EXIST, guard=guard),
        lambda: store.put("/mine", b"2", if_own=True, guard=guard),
        lambda: store.delete("/key", guard=guard),
        lambda: store.delete("/mine", if_own=True, guard=guard),
    ):
        with pytest.raises(GuardError) as refused:
            await write()
        assert (refused.value.path, refused.value.expected, refused.value.actual) == ("/guard", 0, 1)
    assert [(await store.get(path)).value for path in ("/key", "/mine")] == [b"1", b"1"]
    await store.put("/last", b"")
    await heard.until_heard(Notification(NotificationType.CREATED, "/last"))
    assert {change.path for change in heard.told} <= {"/guard", "/last", "/"}


async def test_a_guard_that_is_gone_holds_for_nobody(store):
    await store.put("/guard", b"")
    await store.delete("/guard")
    for version in (0, 1):
        with pytest.raises(GuardError):
            await store.put("/key", b"", guard=Guard("/guard", version))
    assert not await store.exists("/key")


async def test_a_key_above_others_can_be_made_under_a_guard(store):
    """A store may have something at that path that is not a key."""
    await store.put("/guard", b"")
    await store.put("/a/b", b"")
    await store.put("/a", b"value", guard=Guard("/guard", 0))
    assert (await store.get("/a")).value == b"value"


async def test_a_large_value_can_be_written_under_a_guard(store):
    await store.put("/guard", b"")
    for value in (b"x" * 200_000, b"y" * 200_000):
        await store.put("/large", value, guard=Guard("/guard", 0))
        assert (await store.get("/large")).value == value
    with pytest.raises(GuardError):
        await store.put("/large", b"z" * 200_000, guard=Guard("/guard", 1))


async def test_a_session_that_ended_is_told_of_that_and_not_of_its_guard(backend, store):
    other = await backend.connect()
    await store.put("/guard", b"")
    await backend.expire(store)
    with pytest.raises(SessionLostError):
        await store.put("/key", b"", guard=Guard("/guard", 7))
    assert not await other.exists("/key")


# ---- epochs ----


async def elected(store: Any, former: Any = None) -> Epoch:
    """Elect `store` in place of `former`, and take its epoch."""
    if former is not None:
        await former.delete(LEADER)
    await store.put(LEADER, b"", ephemeral=True, expected_version=MUST_NOT_EXIST)
    epoch = await take_epoch(store, LEADER, "a:1")
    assert epoch is not None
    return epoch


async def test_epochs_rise_from_leader_to_leader_and_only_who_is_elected_takes_one(backend, store):
    other = await backend.connect()
    assert await take_epoch(store, LEADER, "a:1") is None
    assert await read_epoch(store, LEADER) is None
    first = await elected(store)
    assert await take_epoch(other, LEADER, "b:1") is None
    second = await elected(other, former=store)
    assert (first.number, second.number) == (1, 2)

    async def is_seen() -> bool:
        return await read_epoch(store, LEADER) == second

    assert await eventually(is_seen)
    assert await take_epoch(store, LEADER, "a:1") is None


async def test_who_takes_an_epoch_knows_who_led_before_and_whether_he_gave_it_up(backend, store):
    other = await backend.connect()
    first = await elected(store)
    assert first.before is None
    second = await elected(other, former=store)
    assert second.before == Predecessor("a:1", has_released=False)
    await announce_release(other, LEADER, second.number, "a:1")
    third = await elected(store, former=other)
    assert third.before == Predecessor("a:1", has_released=True)
    fourth = await elected(other, former=store)  # what was given up is an epoch of before
    assert fourth.before == Predecessor("a:1", has_released=False)
    await other.put(release_path(LEADER), b"nonsense")
    fifth = await elected(store, former=other)
    assert fifth.before == Predecessor("a:1", has_released=False)


async def test_every_write_of_a_former_leader_is_refused_and_changes_no_byte(backend, store):
    other, refused = await backend.connect(), []
    first = await elected(store)
    former = FencedStore(store, lambda: first, refused.append)
    await former.put("/data", b"1")
    second = await elected(other, former=store)
    for write in (
        lambda: former.put("/data", b"2"),
        lambda: former.put("/data", b"2", expected_version=0),
        lambda: former.put("/more", b"2", expected_version=MUST_NOT_EXIST),
        lambda: former.delete("/data"),
    ):
        with pytest.raises(NotLeadingError):
            await write()
    assert refused == [first] * 4
    assert (await other.get("/data")).value == b"1"
    assert not await other.exists("/more")
    await FencedStore(other, lambda: second, refused.append).delete("/data")
    assert not await other.exists("/data")


async def test_a_write_under_an_epoch_whose_record_was_deleted_names_no_other_leader(backend, store):
    first = await elected(store)
    await store.delete(epoch_path(LEADER))
    with pytest.raises(NotLeadingError, match="deleted") as told:
        await FencedStore(store, lambda: first, lambda epoch: None).put("/data", b"1")
    assert "another leader" not in str(told.value)


async def test_those_who_take_an_epoch_at_once_never_get_the_same(store):
    await store.put(LEADER, b"", ephemeral=True)
    taken = await asyncio.gather(*(take_epoch(store, LEADER, "a:1") for _ in range(8)))
    numbers = sorted(epoch.number for epoch in taken if epoch is not None)
    assert numbers == list(range(1, len(numbers) + 1))
    assert numbers
    assert (await read_epoch(store, LEADER)).number == numbers[-1]


async def test_a_gate_lets_commands_of_the_epoch_of_now_pass(backend, store):
    other = await backend.connect()
    gate = EpochGate(other, LEADER)
    with pytest.raises(StoreUnavailableError, match="this broker has not read leader epoch 1 from the store yet"):
        await gate.admit(1)
    first = await elected(store)

    async def admitted(epoch: int) -> Guard | None:
        try:
            return await gate.admit(epoch)
        except StoreUnavailableError:  # not heard of yet, where a store may answer from a while ago
            return None

    assert await eventually(lambda: admitted(1)) == first.guard
    second = await elected(other, former=store)
    assert await eventually(lambda: admitted(2)) == second.guard
    with pytest.raises(FormerEpochError) as refused:
        await gate.admit(1)
    assert (refused.value.epoch, refused.value.current) == (1, 2)
    with pytest.raises(FormerEpochError):
        await EpochGate(other, LEADER).admit(1)


async def test_an_epoch_record_that_is_none_makes_no_leader(store):
    """The former epochs are unknown, so a new one might repeat one of them."""
    await store.put(LEADER, b"", ephemeral=True)
    for value in (b"?", b'{"epoch":-1}', b'{"epoch":%d}' % (MAX_EPOCH + 1)):
        await store.put(epoch_path(LEADER), value)
        with pytest.raises(InvalidValueError):
            await take_epoch(store, LEADER, "a:1")
