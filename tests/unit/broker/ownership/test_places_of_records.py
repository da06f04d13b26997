"""Records that move from one location to the other while brokers write them, on virtual time."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final

import msgspec
import pytest

from pulsar_barycenter.broker.cluster.dynamic_configuration import ConfigHolder
from pulsar_barycenter.broker.cluster.leadership import CHANNEL_LEADER_PATH, Leadership
from pulsar_barycenter.broker.ownership.channel.places.place import PLACE_PATH, READERS_ROOT, Place, read_place
from pulsar_barycenter.broker.ownership.channel.places.syncer import SYNCER_KEY, CopiedRecords, RecordsSyncer
from pulsar_barycenter.broker.ownership.channel.records import ChannelUnavailableError
from pulsar_barycenter.broker.ownership.channel.store_records import RECORDS_ROOT
from pulsar_barycenter.config.broker_conf import ConfigError, parse_broker_conf
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.load.service_units import events
from pulsar_barycenter.load.service_units.service_unit_state import ServiceUnitStateData, StorageType
from pulsar_barycenter.metadata.errors import GuardError
from support.ownership_places import BUNDLE, OTHER, SESSION_MS, Followed, View, assigned, count_up, of_version, owned
from support.simulation.cluster import SimClock
from support.simulation.loop import VirtualTimeLoop

TOPIC: Final = StorageType.SYSTEM_TOPIC
STORE: Final = StorageType.METADATA_STORE
TO_STORE: Final = "SystemTopicToMetadataStoreSyncer"
TO_TOPIC: Final = "MetadataStoreToSystemTopicSyncer"
HELD_S: Final = 5.0


class TwoPlaces(Followed):
    """Both places, the key, and leaders that may move the records."""

    def __init__(self, loop: VirtualTimeLoop) -> None:
        super().__init__(loop)
        self.admin = self.backend.connect(SimClock(loop, 0), 3_600_000)
        self.leaderships: list[tuple[View, Leadership]] = []
        self.syncers: list[tuple[View, RecordsSyncer]] = []
        self.config = ConfigHolder(BrokerConfig(metadata_store_session_timeout_millis=SESSION_MS))

    def want(self, syncer: str) -> None:
        self.config.apply({SYNCER_KEY: syncer})

    async def leader(self, view: View) -> RecordsSyncer:
        """Let a view's broker take part in the election, and lead if no other does."""
        store = self.stores[view.node.name]

        def made() -> tuple[Leadership, RecordsSyncer]:
            leadership = Leadership(store, CHANNEL_LEADER_PATH)
            records, make = self.followed[view.node.name], self.made[view.node.name]
            return leadership, RecordsSyncer(store, records, self.config, leadership, make)

        leadership, syncer = view.node.call(made)
        await view.run(leadership.start(view.node.name, "", ()))
        self.leaderships.append((view, leadership))
        self.syncers.append((view, syncer))
        return syncer

    async def place(self) -> Place:
        found = await read_place(self.admin)
        assert found is not None
        return found.place

    async def until_in(self, place: StorageType, syncer: RecordsSyncer, *views: View) -> None:
        """Have the leader work until the records are there and all `views` follow."""
        view = next(each for each, its in self.syncers if its is syncer)
        for _ in range(2000):
            await view.run(syncer.run())
            if (await self.place()).place is place and all(each.records.storage is place for each in views):
                return
            await asyncio.sleep(0.05)
        raise AssertionError(f"not in the {place.value}")

    async def read_anew(self, place: StorageType, view: View) -> dict[Any, ServiceUnitStateData]:
        """Return what is in one of the places, whether it is the truth or not."""
        records: CopiedRecords = view.node.call(self.made[view.node.name], place)
        view.node.call(records.start, lambda *_: None)
        await self.until(lambda: records.is_read)
        await view.run(records.catch_up())
        found = dict(records.items())
        await view.run(records.close())
        return found

    async def close(self) -> None:
        for view, syncer in self.syncers:
            await view.run(syncer.close())
        for view, leadership in self.leaderships:
            await view.run(leadership.close())
        await super().close()


Scenario = Callable[[TwoPlaces], Coroutine[Any, Any, None]]


def play(scenario: Scenario) -> None:
    loop = VirtualTimeLoop()  # type: ignore[abstract]

    async def playing() -> None:
        places = TwoPlaces(loop)
        await places.open()
        await scenario(places)
        await places.close()

    try:
        loop.run_until_complete(playing())
        assert loop.failures == []
    finally:
        loop.tear_down()


def test_records_go_to_the_other_place_and_back_with_all_that_is_said_of_them() -> None:
    async def scenario(places: TwoPlaces) -> None:
        one, two = await places.view(), await places.view()
        syncer = await places.leader(one)
        first = await owned(one)
        await places.until_read((await count_up(two, OTHER, 5))[-1], OTHER, one)
        held = dict(one.records.items())
        assert len(held) == 2

        places.want(TO_STORE)
        await places.until_in(STORE, syncer, one, two)
        assert dict(two.records.items()) == held
        after = events.releasing(two.get(BUNDLE), "b:1", 9)
        assert await two.replace(BUNDLE, after)
        await places.until_read(after, BUNDLE, one)
        assert after.version_id == first.version_id + 1

        places.want(TO_TOPIC)
        await places.until_in(TOPIC, syncer, one, two)
        assert dict(two.records.items()) == {**held, BUNDLE: after}
        assert dict(one.records.items()) == await places.read_anew(TOPIC, two)

    play(scenario)


def test_nobody_is_told_of_a_record_that_only_moved() -> None:
    async def scenario(places: TwoPlaces) -> None:
        one, two = await places.view(), await places.view()
        syncer = await places.leader(one)
        record = await owned(one)
        await places.until_read(record, BUNDLE, two)
        told = len(two.changes)
        places.want(TO_STORE)
        await places.until_in(STORE, syncer, one, two)
        assert two.changes[told:] == []

    play(scenario)


def test_the_place_that_was_left_is_kept_alike_while_the_syncer_is_set() -> None:
    async def scenario(places: TwoPlaces) -> None:
        one = await places.view()
        syncer = await places.leader(one)
        places.want(TO_STORE)
        await places.until_in(STORE, syncer, one)
        await owned(one)
        await owned(one, OTHER, epoch=8)
        assert await one.replace(OTHER, None)
        await one.run(syncer.run())
        assert await places.read_anew(TOPIC, one) == dict(one.records.items())
        assert dict(syncer.samples())["barycenter_ownership_records_copied"] == 1

        places.want("None")
        await one.run(syncer.run())
        await owned(one, OTHER, epoch=9)
        await one.run(syncer.run())
        assert OTHER not in await places.read_anew(TOPIC, one)
        assert "barycenter_ownership_records_copied" not in dict(syncer.samples())

    play(scenario)


def test_what_lay_in_the_other_place_since_long_ago_is_replaced() -> None:
    async def scenario(places: TwoPlaces) -> None:
        one = await places.view()
        syncer = await places.leader(one)
        old = of_version((await count_up(one, OTHER, 1))[0], 400)
        await places.admin.put(f"{RECORDS_ROOT}/{OTHER}", msgspec.json.encode(old))
        await places.admin.put(f"{RECORDS_ROOT}/{BUNDLE}", b"damaged")
        assert await one.replace(OTHER, None)
        record = await owned(one)
        places.want(TO_STORE)
        await places.until_in(STORE, syncer, one)
        assert dict(one.records.items()) == {BUNDLE: record}

        await places.write(str(BUNDLE), msgspec.json.encode(of_version(record, 400)))
        places.want(TO_TOPIC)
        await places.until_in(TOPIC, syncer, one)
        assert dict(one.records.items()) == {BUNDLE: record}

    play(scenario)


def test_what_is_being_written_when_all_are_asked_to_stand_still_goes_along() -> None:
    async def scenario(places: TwoPlaces) -> None:
        one, two = await places.view(), await places.view()
        syncer = await places.leader(one)
        places.slow_down(two, 0.5)
        record = events.assigning(None, "a:1", 9)
        offered = two.node.spawn(two.records.put(OTHER, None, record), "offer")
        await asyncio.sleep(0.01)
        places.want(TO_STORE)
        await places.until_in(STORE, syncer, one, two)
        assert await offered
        assert (one.get(OTHER), two.get(OTHER)) == (record, record)

    play(scenario)


@pytest.mark.parametrize("syncer_key", [TO_TOPIC, TO_STORE])
def test_a_record_is_not_written_for_a_leader_whose_epoch_is_over_wherever_records_are(syncer_key: str) -> None:
    async def scenario(places: TwoPlaces) -> None:
        one = await places.view()
        syncer = await places.leader(one)
        places.want(syncer_key)
        await places.until_in(TOPIC if syncer_key == TO_TOPIC else STORE, syncer, one)
        _, leadership = places.leaderships[0]
        guard = leadership.epoch().guard
        first, second = events.assigning(None, "a:1", 9), events.assigning(None, "b:1", 9)
        assert await one.run(one.records.put(BUNDLE, None, first, guard))
        await places.admin.put(guard.path, b'{"epoch":9,"brokerId":"c:1"}')
        with pytest.raises(GuardError):
            await one.run(one.records.put(OTHER, None, second, guard))
        await one.catch_up()
        assert (one.get(BUNDLE), one.get(OTHER)) == (first, None)

    play(scenario)


def test_a_broker_that_cannot_be_heard_of_holds_the_move_up_until_its_session_ends() -> None:
    """It may be writing where the truth is."""

    async def scenario(places: TwoPlaces) -> None:
        one, two = await places.view(), await places.view()
        syncer = await places.leader(one)
        await owned(one)
        cut_off = places.stores[two.node.name]
        places.backend.partition(cut_off)
        places.want(TO_STORE)
        began = places.loop.time()
        await places.until_in(STORE, syncer, one)
        assert places.loop.time() - began >= SESSION_MS / 2000
        assert not places.followed[two.node.name].may_write
        assert not await places.admin.exists(f"/loadbalance/extension/records-readers/{two.node.name}")

        places.backend.heal(cut_off)
        await places.until(lambda: two.records.storage is STORE and places.followed[two.node.name].may_write)
        assert dict(two.records.items()) == dict(one.records.items())

    play(scenario)


def test_the_sign_that_a_reader_stands_still_ends_with_its_session() -> None:
    """Otherwise a broker that is gone would delay every later move."""

    async def scenario(places: TwoPlaces) -> None:
        one, two = await places.view(), await places.view()
        store = places.stores[two.node.name]
        put = store.put

        async def too_late(path: str, *args: Any, **options: Any) -> Any:
            reader = places.followed[two.node.name]
            if path.startswith(READERS_ROOT) and not options.get("ephemeral") and reader.session == 0:
                places.backend.expire_session(store)
                await places.until(lambda: reader.session == 1)
                await asyncio.sleep(1)  # there is another one
            return await put(path, *args, **options)

        store.put = too_late  # type: ignore[method-assign]
        await moving(places, one, two)
        await asyncio.sleep(2 * SESSION_MS / 1000)
        two.node.crash()
        places.backend.crash(store)
        places.views.remove(two)
        await asyncio.sleep(2 * SESSION_MS / 1000)
        assert await places.admin.children(READERS_ROOT) == [one.node.name]

    play(scenario)


async def moving(places: TwoPlaces, *views: View) -> None:
    """Leave the cluster as a leader does that dies in the middle of a move."""
    found = await read_place(places.admin)
    assert found is not None
    place = found.place.next(found.place.place, is_moving=True)
    await places.admin.put(PLACE_PATH, msgspec.json.encode(place))
    await places.until(lambda: not any(places.followed[view.node.name].may_write for view in views))


def test_who_stands_still_makes_no_change_and_sees_none() -> None:
    async def scenario(places: TwoPlaces) -> None:
        one = await places.view()
        record = await owned(one)
        await moving(places, one)
        late = events.releasing(record, None, 9)
        await places.write(str(BUNDLE), msgspec.json.encode(late))
        offered = one.node.spawn(one.records.put(OTHER, None, events.assigning(None, "a:1", 9)), "offer")
        await asyncio.sleep(HELD_S / 2)
        assert (one.get(BUNDLE), offered.done()) == (record, False)

        await places.admin.put(PLACE_PATH, msgspec.json.encode((await places.place()).next(TOPIC, is_moving=False)))
        assert await offered
        assert one.get(BUNDLE) == late
        assert one.told(BUNDLE)[-1] == late

    play(scenario)


def test_a_change_is_refused_when_the_move_takes_long() -> None:
    async def scenario(places: TwoPlaces) -> None:
        one = await places.view()
        await moving(places, one)
        with pytest.raises(ChannelUnavailableError, match="being moved"):
            await one.put(OTHER, None, events.assigning(None, "a:1", 9))
        assert await places.read_anew(TOPIC, one) == {}

    play(scenario)


def test_the_next_leader_begins_anew_what_the_former_one_left_in_the_middle() -> None:
    async def scenario(places: TwoPlaces) -> None:
        one, two = await places.view(), await places.view()
        await owned(one)
        await moving(places, one, two)
        places.want(TO_STORE)
        syncer = await places.leader(two)
        await places.until_in(STORE, syncer, one, two)
        assert not (await places.place()).is_moving
        assert await two.replace(OTHER, events.assigning(None, "a:1", 9))

    play(scenario)


def test_a_move_that_is_not_wanted_any_more_ends_where_it_began() -> None:
    async def scenario(places: TwoPlaces) -> None:
        one = await places.view()
        syncer = await places.leader(one)
        await moving(places, one)
        await one.run(syncer.run())
        place = await places.place()
        assert (place.place, place.is_moving) == (TOPIC, False)
        await assigned(one)

    play(scenario)


def test_a_former_leader_moves_nothing_and_copies_nothing() -> None:
    async def scenario(places: TwoPlaces) -> None:
        one = await places.view()
        await owned(one)
        copied = places.made[one.node.name](STORE)
        one.node.call(copied.start, lambda *_: None)
        await places.until(lambda: copied.is_read)
        with pytest.raises(ChannelUnavailableError, match="another broker is the leader"):
            await one.run(copied.copy(BUNDLE, one.get(BUNDLE), lambda: False))
        await one.run(copied.close())
        assert await places.read_anew(STORE, one) == {}

        two = await places.view()
        await places.leader(one)
        follower = await places.leader(two)
        places.want(TO_STORE)
        before = await places.place()
        await two.run(follower.run())
        assert await places.place() == before

    play(scenario)


def test_another_syncer_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(ConfigError, match=f"{TO_TOPIC} or {TO_STORE}"):
        ConfigHolder(BrokerConfig()).changed(SYNCER_KEY, "Both")
    with pytest.raises(ConfigError, match=f"{TO_TOPIC} or {TO_STORE}"):
        parse_broker_conf(f"{SYNCER_KEY}=Both", "broker.conf")


def test_a_damaged_key_of_the_place_is_waited_for_not_guessed() -> None:
    async def scenario(places: TwoPlaces) -> None:
        for damaged in (b"{", b'{"place": "elsewhere", "generation": 1}', b'"' + b"x" * 2000 + b'"'):
            await places.admin.put(PLACE_PATH, damaged)
            view = places.new_view()
            view.begin()
            await asyncio.sleep(1)
            assert not view.records.is_read
        await places.admin.put(PLACE_PATH, msgspec.json.encode(Place(STORE, 3)))
        await places.until(lambda: all(view.records.is_read for view in places.views))
        assert {view.records.storage for view in places.views} == {STORE}

    play(scenario)
