"""The memory store's faults, on virtual time: what a client is notified of when its process or connection fails."""

import asyncio

import pytest

from pulsar_barycenter.metadata.errors import SessionLostError, StoreUnavailableError
from pulsar_barycenter.metadata.memory.memory_store import MemoryBackend
from pulsar_barycenter.metadata.store import Notification, NotificationType, SessionEvent
from support.metadata_backends import Heard
from support.virtual_time import World, on_virtual_time

LOST_AND_FOUND = [
    SessionEvent.CONNECTION_LOST,
    SessionEvent.SESSION_LOST,
    SessionEvent.RECONNECTED,
    SessionEvent.SESSION_REESTABLISHED,
]


def test_a_quiet_session_lives_on_by_its_heartbeats():
    async def scenario(world: World) -> None:
        client = world.machine().store
        events = Heard.session_events(client)
        await client.put("/key", b"", ephemeral=True)
        await asyncio.sleep(3600)
        assert events.told == []
        assert await client.exists("/key")

    on_virtual_time(scenario)


def test_a_crashed_clients_keys_vanish_when_its_session_times_out():
    async def scenario(world: World) -> None:
        crashed, other = world.machine("crashed"), world.machine("other")
        await crashed.store.put("/key", b"", ephemeral=True)
        crashed.node.crash()
        world.backend.crash(crashed.store)
        await asyncio.sleep(7.9)  # the last heartbeat may have been sent 2 s before
        assert await other.store.exists("/key")
        await asyncio.sleep(2.2)
        assert not await other.store.exists("/key")

    on_virtual_time(scenario)


def test_a_paused_client_loses_its_session_and_hears_of_it_when_it_goes_on():
    """Its heartbeats stop because they run in its own context; the backend is not paused with it."""

    async def scenario(world: World) -> None:
        paused, other = world.machine("paused"), world.machine("other")
        events = Heard.session_events(paused.store)
        await paused.store.put("/key", b"1", ephemeral=True)
        paused.node.pause()
        await asyncio.sleep(20)
        assert not await other.store.exists("/key")
        assert events.told == []
        paused.node.resume()
        await events.until_heard(SessionEvent.SESSION_REESTABLISHED)
        assert events.told == LOST_AND_FOUND
        assert (await paused.store.put("/key", b"2", ephemeral=True)).created_by_self

    on_virtual_time(scenario)


def test_what_a_paused_client_was_about_to_write_is_refused_when_it_goes_on():
    async def scenario(world: World) -> None:
        paused, other = world.machine("paused"), world.machine("other")
        paused.node.pause()

        async def write() -> None:
            with pytest.raises(SessionLostError):
                await paused.store.put("/key", b"from the past")

        writing = paused.node.spawn(write(), "write")
        await asyncio.sleep(20)
        paused.node.resume()
        await writing
        assert not await other.store.exists("/key")

    on_virtual_time(scenario)


def test_a_client_cut_off_for_less_than_its_session_reconnects_and_forgets_what_it_cached():
    """[testDisconnection] CONNECTION_LOST, RECONNECTED, nothing else, and its ephemeral keys are still there."""

    async def scenario(world: World) -> None:
        client = world.machine().store
        events, forgotten = Heard.session_events(client), Heard()
        client.add_invalidator(forgotten.hear)
        await client.put("/key", b"", ephemeral=True)
        world.backend.partition(client)
        await asyncio.sleep(6)
        world.backend.heal(client)
        await asyncio.sleep(6)
        assert events.told == [SessionEvent.CONNECTION_LOST, SessionEvent.RECONNECTED]
        assert None in forgotten.told
        assert await client.exists("/key")

    on_virtual_time(scenario)


def test_a_client_cut_off_knows_of_its_lost_session_before_the_backend_ends_it():
    async def scenario(world: World) -> None:
        cut, other = world.machine("cut").store, world.machine("other").store
        events = Heard.session_events(cut)
        await cut.put("/key", b"", ephemeral=True)
        world.backend.partition(cut)
        await events.until_heard(SessionEvent.SESSION_LOST)
        assert await other.exists("/key")
        await asyncio.sleep(3)
        assert not await other.exists("/key")
        world.backend.heal(cut)
        await events.until_heard(SessionEvent.SESSION_REESTABLISHED)
        assert events.told == LOST_AND_FOUND

    on_virtual_time(scenario)


def test_a_client_that_gave_its_session_up_does_not_take_it_up_again():
    """It is healed before the backend would have ended the session: the old keys go with the old session."""

    async def scenario(world: World) -> None:
        client = world.machine().store
        events = Heard.session_events(client)
        await client.put("/key", b"", ephemeral=True)
        world.backend.partition(client)
        await events.until_heard(SessionEvent.SESSION_LOST)
        world.backend.heal(client)
        await events.until_heard(SessionEvent.SESSION_REESTABLISHED)
        assert not await client.exists("/key")

    on_virtual_time(scenario)


def test_an_operation_without_an_answer_is_of_unknown_outcome():
    async def scenario(world: World) -> None:
        cut, other = world.machine("cut").store, world.machine("other").store
        loop = asyncio.get_running_loop()
        world.backend.latency = lambda operation, path: 1.0 if path == "/written" else 0.0
        writing = asyncio.ensure_future(cut.put("/written", b""))
        await asyncio.sleep(1.5)  # it has arrived, its answer is on the way
        world.backend.partition(cut)
        began = loop.time()
        with pytest.raises(StoreUnavailableError):
            await cut.put("/not-written", b"")
        assert loop.time() - began == pytest.approx(5)
        with pytest.raises(StoreUnavailableError):
            await writing
        assert await other.children("/") == ["written"]

    on_virtual_time(scenario)


def test_notifications_lost_to_a_short_cut_are_made_up_for_by_reconnecting():
    """Too short for a heartbeat to fail; the next one shows that something was missed."""

    async def scenario(world: World) -> None:
        cut, other = world.machine("cut").store, world.machine("other").store
        events = Heard.session_events(cut)
        world.backend.partition(cut)
        await other.put("/key", b"")
        world.backend.heal(cut)
        await events.until_heard(SessionEvent.RECONNECTED)
        assert events.told == [SessionEvent.CONNECTION_LOST, SessionEvent.RECONNECTED]

    on_virtual_time(scenario)


def test_notifications_can_be_delayed_and_lost_without_a_word():
    async def scenario(world: World) -> None:
        slow, other = world.machine("slow").store, world.machine("other").store
        changes, events = Heard.changes(slow), Heard.session_events(slow)
        delays = {"/lost": None, "/late": 4.0, "/held-up": 0.0}
        world.backend.route_notifications(slow, lambda change: delays[change.path])
        for path in delays:
            await other.put(path, b"")
        await asyncio.sleep(3.9)
        assert changes.told == []
        await asyncio.sleep(60)
        assert changes.told == [
            Notification(NotificationType.CREATED, "/late"),
            Notification(NotificationType.CREATED, "/held-up"),
        ]
        assert events.told == []

    on_virtual_time(scenario)


def test_an_operation_takes_as_long_as_the_latency_says():
    async def scenario(world: World) -> None:
        client = world.machine().store
        loop = asyncio.get_running_loop()
        world.backend.latency = lambda operation, path: 0.25 if (operation, path) == ("put", "/slow") else 0.0
        began = loop.time()
        await asyncio.gather(client.put("/slow", b""), client.put("/slow", b""))
        assert loop.time() - began == pytest.approx(0.5)
        await client.get("/slow")
        assert loop.time() - began == pytest.approx(0.5)

    on_virtual_time(scenario)


def test_a_slow_connection_does_not_keep_a_client_from_a_new_session():
    """An answer takes longer than a heartbeat interval, so another request is sent before the first is answered."""

    async def scenario(world: World) -> None:
        client = world.machine().store
        events = Heard.session_events(client)
        world.backend.latency = lambda operation, path: 1.3
        world.backend.expire_session(client)
        await asyncio.sleep(30)
        assert events.told[:4] == LOST_AND_FOUND
        assert events.told.count(SessionEvent.SESSION_LOST) == 1
        assert (await client.put("/key", b"", ephemeral=True)).created_by_self

    on_virtual_time(scenario)


def test_answers_slower_than_the_heartbeats_are_no_lost_connection():
    """Otherwise every client of a slow store would read all cached keys again with each heartbeat, and slow it
    further."""

    async def scenario(world: World) -> None:
        client = world.machine().store
        events = Heard.session_events(client)
        world.backend.latency = lambda operation, path: 1.3
        await asyncio.sleep(600)
        assert events.told == []

    on_virtual_time(scenario)


def test_the_same_calls_give_the_same_run():
    """Nothing depends on addresses, threads or the wall clock."""

    def run() -> list[tuple[float, object]]:
        history: list[tuple[float, object]] = []

        async def scenario(world: World) -> None:
            machines = [world.machine(f"m{number}", 1000 + 500 * number) for number in range(4)]
            for machine in machines:
                machine.store.add_listener(lambda change: history.append((world.loop.time(), change)))
                machine.store.add_session_listener(lambda event: history.append((world.loop.time(), event)))
            for number in range(40):
                await machines[number % 4].store.put(f"/{number % 7}", b"", ephemeral=number % 2 == 0)
                if number % 10 == 5:
                    world.backend.expire_session(machines[number % 3].store)
                await asyncio.sleep(0.3)

        on_virtual_time(scenario)
        return history

    assert run() == run()


async def test_closing_twice_and_while_cut_off_ends_quickly():
    backend = MemoryBackend()
    client = backend.connect(None, 1000, operation_timeout_ms=10)
    backend.partition(client)
    await client.close()
    await client.close()
