"""ResourceLock and LockManager. Names in brackets are Pulsar's tests (LockManagerTest, and those of ResourceLock)."""

import asyncio

import msgspec
import pytest

from pulsar_barycenter.metadata.coordination.locks import LOCK_TRANSITIONS, LockManager, LockState
from pulsar_barycenter.metadata.errors import (
    LockBusyError,
    LockLostError,
    MetadataError,
    StoreClosedError,
    StoreUnavailableError,
)
from pulsar_barycenter.metadata.memory.memory_store import MemoryBackend
from pulsar_barycenter.metadata.store import NotificationType, SessionEvent
from support.metadata_backends import Heard, eventually
from support.virtual_time import World, on_virtual_time

PATH = "/locks/one"


@pytest.fixture
def backend():
    return MemoryBackend()


@pytest.fixture
async def stores(backend):
    stores = [backend.connect() for _ in range(2)]
    yield stores
    for store in stores:
        await store.close()


@pytest.fixture
async def managers(stores):
    managers = [LockManager(store, str) for store in stores]
    yield managers
    for manager in managers:
        await manager.close()


@pytest.fixture
def mine(managers):
    return managers[0]


@pytest.fixture
def theirs(managers):
    return managers[1]


def value_of(backend):
    record = backend.keys.get(PATH, session=None)
    return None if record is None else msgspec.json.decode(record.value)


class Unanswered:
    """Has a store carry out its next writes, or not, and lose the answer."""

    def __init__(self, store, *, takes_effect):
        self.put, self.delete = store.put, store.delete
        self.store, self.takes_effect, self.deletes = store, takes_effect, []
        store.put, store.delete = self._put, self._delete

    async def _put(self, path, value, **options):
        if self.takes_effect:
            await self.put(path, value, **options)
        raise StoreUnavailableError(path, "no answer")

    async def _delete(self, path, **options):
        self.deletes.append(path)
        if self.takes_effect:
            await self.delete(path, **options)
        raise StoreUnavailableError(path, "no answer")

    def mend(self):
        self.store.put, self.store.delete = self.put, self.delete


async def test_acquire_release_and_acquire_again(backend, mine, theirs):
    """[acquireLocks]"""
    assert backend.keys.children("/locks") == []
    lock = await mine.acquire(PATH, "me")
    assert lock.is_held
    assert (lock.path, lock.value) == (PATH, "me")
    assert backend.keys.children("/locks") == ["one"]
    assert value_of(backend) == "me"
    with pytest.raises(LockBusyError):
        await theirs.acquire(PATH, "they")
    releasing = asyncio.ensure_future(lock.release())
    await lock.expired
    await releasing
    await lock.release()
    assert backend.keys.children("/locks") == []
    assert (await theirs.acquire(PATH, "they")).is_held


async def test_closing_the_manager_releases_all_locks(backend, mine):
    """[cleanupOnClose]"""
    locks = [await mine.acquire(f"/locks/{number}", "me") for number in range(3)]
    await mine.close()
    assert all(lock.expired.done() for lock in locks)
    assert len(backend.keys) == 0
    with pytest.raises(StoreClosedError):
        await mine.acquire(PATH, "me")


async def test_a_lock_acquired_while_its_manager_closes_is_released(backend, mine):
    acquiring = asyncio.ensure_future(mine.acquire(PATH, "me"))
    await asyncio.sleep(0)
    await mine.close()
    with pytest.raises(StoreClosedError):
        await acquiring
    assert len(backend.keys) == 0


async def test_the_value_can_be_updated(backend, mine):
    """[updateValue]"""
    lock = await mine.acquire(PATH, "me")
    await lock.update("me 2")
    assert (lock.value, value_of(backend)) == ("me 2", "me 2")
    await lock.release()
    with pytest.raises(LockLostError):
        await lock.update("me 3")


async def test_an_update_succeeds_although_the_version_is_out_of_step(backend, mine, stores):
    """[updateValueWhenVersionIsOutOfSync]"""
    lock = await mine.acquire(PATH, "me")
    await stores[0].put(PATH, b'"me and something"')
    await lock.update("me 2")
    assert (value_of(backend), lock.is_held) == ("me 2", True)


async def test_an_update_succeeds_although_the_key_has_vanished(backend, mine, stores):
    """[updateValueWhenKeyDisappears]"""
    lock = await mine.acquire(PATH, "me")
    await asyncio.gather(stores[1].delete(PATH), lock.update("me 2"))
    assert (value_of(backend), lock.is_held) == ("me 2", True)


@pytest.mark.parametrize("left_behind", ["me", "an earlier me"])
async def test_a_key_of_the_own_session_is_adopted_whatever_it_holds(backend, mine, stores, left_behind):
    """[revalidateLockWithinSameSession] As after an acquisition whose answer was lost. It is never absent."""
    heard = Heard.changes(stores[0])
    await stores[0].put(PATH, msgspec.json.encode(left_behind), ephemeral=True)
    lock = await mine.acquire(PATH, "me")
    assert (value_of(backend), lock.is_held) == ("me", True)
    assert NotificationType.DELETED not in [change.type for change in heard.told]


async def test_a_key_of_another_session_with_another_value_is_busy_and_undisturbed(backend, mine, stores):
    """[revalidateLockOnDifferentSession]"""
    await stores[1].put(PATH, b'"they"', ephemeral=True)
    with pytest.raises(LockBusyError):
        await mine.acquire(PATH, "me")
    assert backend.keys.get(PATH, session=None).stat.version == 0


async def test_a_key_of_another_session_of_the_same_owner_is_taken_over(backend, mine, stores):
    """[revalidateLockOnDifferentSession, same content] It is the owner's own former life."""
    await stores[1].put(PATH, b'"me"', ephemeral=True)
    lock = await mine.acquire(PATH, "me")
    assert lock.is_held
    assert (await stores[0].get(PATH)).stat.created_by_self


async def test_what_makes_an_owner_can_be_said(backend, stores):
    """Two values of one broker that differ in their epoch are of the same owner."""

    def same_broker(one, other):
        return one.split()[0] == other.split()[0]

    manager = LockManager(stores[0], str, same_owner=same_broker)
    await stores[1].put(PATH, b'"broker-1 epoch-1"', ephemeral=True)
    lock = await manager.acquire(PATH, "broker-1 epoch-2")
    assert (value_of(backend), lock.value) == ("broker-1 epoch-2", "broker-1 epoch-2")
    await stores[1].put("/locks/two", b'"broker-2 epoch-1"', ephemeral=True)
    with pytest.raises(LockBusyError):
        await manager.acquire("/locks/two", "broker-1 epoch-3")
    await manager.close()


@pytest.mark.parametrize("value", [b'"me"', b"not JSON"])
async def test_what_is_not_a_lock_is_busy(mine, stores, value):
    await stores[1].put(PATH, value)
    with pytest.raises(LockBusyError):
        await mine.acquire(PATH, "me")


async def test_a_lock_whose_key_is_deleted_by_somebody_is_taken_again(backend, mine, stores):
    lock = await mine.acquire(PATH, "me")
    await stores[1].delete(PATH)
    await eventually(lambda: value_of(backend) == "me")
    assert not lock.expired.done()


async def test_a_lock_that_somebody_replaced_expires_and_deletes_nothing(backend, mine, stores):
    """[an observed replacement expires the lock without deleting it] The new key has the same version as the old."""
    lock = await mine.acquire(PATH, "me")
    deletion = stores[1].delete(PATH)
    replacement = stores[1].put(PATH, b'"they"', ephemeral=True)
    await asyncio.gather(deletion, replacement)
    await lock.expired
    assert not lock.is_held
    await lock.release()
    assert value_of(backend) == "they"


async def test_a_late_release_of_the_first_life_does_not_delete_the_second(backend, mine, theirs, stores):
    """The holder does not know yet that its session ended and another took the path, at the same version."""
    lock = await mine.acquire(PATH, "me")
    backend.expire_session(stores[0])
    await theirs.acquire(PATH, "they")
    assert lock.is_held
    await lock.release()
    assert value_of(backend) == "they"
    assert lock.expired.done()


async def test_a_late_release_does_not_delete_what_the_same_manager_acquired_anew(backend, mine):
    """One object per life: the newer one took the key over."""
    first = await mine.acquire(PATH, "me")
    second = await mine.acquire(PATH, "me")
    await first.expired
    await first.release()
    assert value_of(backend) == "me"
    assert second.is_held
    await second.release()
    assert value_of(backend) is None


async def test_a_late_update_of_the_first_life_does_not_overwrite_the_second(backend, mine, theirs, stores):
    lock = await mine.acquire(PATH, "me")
    backend.expire_session(stores[0])
    events = Heard.session_events(stores[0])
    await theirs.acquire(PATH, "they")
    with pytest.raises(MetadataError):
        await lock.update("me 2")
    await events.until_heard(SessionEvent.SESSION_REESTABLISHED)
    await lock.expired
    assert value_of(backend) == "they"


async def test_releases_share_one_deletion(mine, stores):
    lock = await mine.acquire(PATH, "me")
    heard = Heard.changes(stores[1])
    await asyncio.gather(*(lock.release() for _ in range(5)))
    await stores[1].put("/end", b"")
    await heard.until(lambda told: told[-1].path == "/end")
    assert [change.type for change in heard.told if change.path == PATH] == [NotificationType.DELETED]


async def test_a_release_waits_for_queued_updates_and_deletes_their_version(backend, mine):
    lock = await mine.acquire(PATH, "me")
    updates = [asyncio.ensure_future(lock.update(f"me {number}")) for number in range(3)]
    await asyncio.sleep(0)
    await lock.release()
    assert [update.exception() for update in updates] == [None, None, None]
    assert (lock.value, value_of(backend)) == ("me 2", None)


async def test_a_release_joins_a_proof_under_way_and_makes_no_new_key(backend, mine, stores):
    """The key was deleted; the lock is being proven, and would be taken again, when the release comes."""
    lock = await mine.acquire(PATH, "me")
    await stores[0].delete(PATH)
    heard = Heard.changes(stores[0])
    await asyncio.sleep(0)  # the proof has begun
    await lock.release()
    await stores[0].put("/end", b"")
    await heard.until(lambda told: told and told[-1].path == "/end")
    assert NotificationType.CREATED not in [change.type for change in heard.told if change.path == PATH]
    assert value_of(backend) is None


@pytest.mark.parametrize("takes_effect", [True, False])
async def test_after_an_update_of_unknown_outcome_nothing_is_deleted(backend, mine, stores, takes_effect):
    """[an ambiguous update failure never leads to a delete, failed release retained]"""
    lock = await mine.acquire(PATH, "me")
    faults = Unanswered(stores[0], takes_effect=takes_effect)
    get, stores[0].get = stores[0].get, faults._delete  # nothing is answered: the doubt cannot be resolved
    with pytest.raises(StoreUnavailableError):
        await lock.update("me 2")
    assert lock.is_held
    faults.deletes.clear()
    stores[0].delete = faults.delete
    for _ in range(2):
        with pytest.raises(MetadataError, match="outcome of an earlier operation is unknown"):
            await lock.release()
    assert value_of(backend) == ("me 2" if takes_effect else "me")
    assert lock.expired.done()
    stores[0].get = get
    faults.mend()


@pytest.mark.parametrize("takes_effect", [True, False])
async def test_an_update_of_unknown_outcome_is_undone_when_the_store_answers_again(backend, mine, stores, takes_effect):
    """The caller got an error, so the check restores the previous value."""
    lock = await mine.acquire(PATH, "me")
    faults = Unanswered(stores[0], takes_effect=takes_effect)
    with pytest.raises(StoreUnavailableError):
        await lock.update("me 2")
    faults.mend()
    await eventually(lambda: value_of(backend) == "me" and not lock._is_ambiguous)
    await lock.release()
    assert value_of(backend) is None


async def test_a_failed_release_is_remembered(backend, mine, stores):
    lock = await mine.acquire(PATH, "me")
    faults = Unanswered(stores[0], takes_effect=False)
    for _ in range(3):
        with pytest.raises(StoreUnavailableError):
            await lock.release()
    assert faults.deletes == [PATH]
    assert lock.expired.done()
    faults.mend()
    assert value_of(backend) == "me"


async def test_a_deletion_between_the_store_and_its_answer_is_not_overlooked(backend, mine, stores):
    """The key is deleted before the acquirer gets the answer; the notification comes first."""
    world = backend
    acquiring = asyncio.ensure_future(mine.acquire(PATH, "me"))
    await asyncio.sleep(0)
    deleting = asyncio.ensure_future(stores[1].delete(PATH))
    lock = await acquiring
    await deleting
    await eventually(lambda: value_of(world) == "me")
    assert lock.is_held


async def test_an_update_under_way_when_its_lock_expires_writes_nothing_more(backend, mine, stores):
    """The update reads the key again, because another client changed it; meanwhile the locks are released."""
    lock = await mine.acquire(PATH, "me")
    await stores[0].put(PATH, b'"touched"', ephemeral=True)
    updating = asyncio.ensure_future(lock.update("me again"))
    get = stores[0].get

    async def expiring(path):
        mine.expire_all()
        return await get(path)

    stores[0].get = expiring
    with pytest.raises(LockLostError):
        await updating
    assert value_of(backend) == "touched"
    assert lock.expired.done()


def test_disconnection_alone_expires_no_lock():
    async def scenario(world: World) -> None:
        client, other = world.machine("holder").store, world.machine("other").store
        manager = LockManager(client, str)
        lock = await manager.acquire(PATH, "me")
        world.backend.partition(client)
        await asyncio.sleep(600)
        assert lock.is_held
        assert not await other.exists(PATH)
        world.backend.heal(client)
        await asyncio.sleep(10)
        assert await other.exists(PATH)
        assert lock.is_held
        await manager.close()

    on_virtual_time(scenario)


def test_a_lock_taken_by_another_during_a_disconnection_expires_at_the_reconnection():
    async def scenario(world: World) -> None:
        client, other = world.machine("holder").store, world.machine("other").store
        manager = LockManager(client, str)
        lock = await manager.acquire(PATH, "me")
        world.backend.partition(client)
        await asyncio.sleep(20)
        await other.put(PATH, b'"they"', ephemeral=True)
        world.backend.heal(client)
        async with asyncio.timeout(10):
            await lock.expired
        assert value_of(world.backend) == "they"
        await manager.close()

    on_virtual_time(scenario)


def test_a_lost_notification_is_made_up_for_by_the_recheck():
    async def scenario(world: World) -> None:
        client, other = world.machine("holder").store, world.machine("other").store
        world.backend.route_notifications(client, lambda change: None)
        manager = LockManager(client, str)
        kept, lost = await manager.acquire(PATH, "me"), await manager.acquire("/locks/two", "me")
        await other.delete(PATH)
        await other.delete("/locks/two")
        await other.put("/locks/two", b'"they"', ephemeral=True)
        await asyncio.sleep(31)
        assert value_of(world.backend) == "me"
        assert (kept.is_held, lost.is_held) == (True, False)
        await manager.close()

    on_virtual_time(scenario)


def test_revalidation_goes_on_with_back_off_until_the_store_answers():
    async def scenario(world: World) -> None:
        client = world.machine("holder").store
        manager = LockManager(client, str)
        lock = await manager.acquire(PATH, "me")
        asked: list[float] = []
        get = client.get

        async def fail(path: str) -> None:
            asked.append(world.loop.time())
            raise StoreUnavailableError(path, "no answer")

        client.get = fail  # type: ignore[assignment,method-assign]
        lock.doubt()
        await asyncio.sleep(28)
        assert 8 <= len(asked) <= 14
        assert lock.is_held
        client.get = get  # type: ignore[method-assign]
        await world.machine("other").store.delete(PATH)
        await asyncio.sleep(6)
        assert value_of(world.backend) == "me"
        await manager.close()

    on_virtual_time(scenario)


def test_nothing_leads_out_of_an_expired_lock_or_back_to_a_valid_one():
    """What the table guarantees for any order of the steps."""
    after = {state: {there for (here, _), there in LOCK_TRANSITIONS.items() if here is state} for state in LockState}
    assert after[LockState.EXPIRED] == set()
    assert after[LockState.RELEASING] == {LockState.EXPIRED}
    assert after[LockState.VALID] == {LockState.RELEASING, LockState.EXPIRED}
