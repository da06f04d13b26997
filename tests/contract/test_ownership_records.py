"""The guarantees of every location of ownership records: each test runs on each of `support.ownership_places`."""

import asyncio
from collections.abc import Callable

import msgspec
import pytest

from pulsar_barycenter.broker.ownership.channel.records import ChannelUnavailableError
from pulsar_barycenter.load.service_units import events
from pulsar_barycenter.load.service_units.conflicts import Conflict, conflict
from pulsar_barycenter.load.service_units.service_unit_state import (
    GREATEST_VERSION,
    ServiceUnitStateData,
    StorageType,
    encode_record,
)
from support.ownership_places import BUNDLE, OTHER, Place, Play, Record, View, assigned, count_up, of_version, owned

# ---- reading and writing


def test_what_was_put_is_read_and_told_here_before_put_returns(play: Play) -> None:
    async def scenario(place: Place) -> None:
        view = await place.view()
        assert (view.get(BUNDLE), view.records.bundles(), view.records.items()) == (None, [], [])
        first = events.assigning(None, "a:1", 1)
        assert await view.put(BUNDLE, None, first)
        assert view.get(BUNDLE) == first
        assert view.changes == [(BUNDLE, None, first)]
        second = events.owned(first, 2, 7)
        assert await view.replace(BUNDLE, second)
        assert view.changes == [(BUNDLE, None, first), (BUNDLE, first, second)]
        assert view.records.items() == [(BUNDLE, second)]
        assert view.records.bundles() == [BUNDLE]

    play(scenario)


def test_all_are_told_of_all_changes_of_a_bundle_in_their_order_whoever_made_them(play: Play) -> None:
    async def scenario(place: Place) -> None:
        views = [await place.view() for _ in range(3)]
        made: list[Record] = []
        for turn in range(12):
            view = views[turn % 3]
            await place.until_read(made[-1] if made else None, BUNDLE, view)
            record = events.claimed(view.get(BUNDLE), f"b{turn}:1", turn, turn)
            assert await view.replace(BUNDLE, record)
            made.append(record)
        await place.until_read(made[-1], BUNDLE, *views)
        for view in views:
            assert view.told(BUNDLE) == made
            assert [change.before for change in view.changes] == [None, *made[:-1]]

    play(scenario)


def test_who_comes_later_reads_what_is_there_and_then_what_follows(play: Play) -> None:
    async def scenario(place: Place) -> None:
        first = await place.view()
        await count_up(first, BUNDLE, 5)
        await count_up(first, OTHER, 3)
        later = await place.view()
        assert dict(later.records.items()) == dict(first.records.items())
        assert later.told(BUNDLE)[-1] == first.get(BUNDLE)
        (record,) = await count_up(first, BUNDLE, 1)
        await place.until_read(record, BUNDLE, later)

    play(scenario)


def test_nothing_is_read_before_all_that_is_there_was(play: Play) -> None:
    """So a bundle whose record is not read yet is not taken for unowned."""

    async def scenario(place: Place) -> None:
        first = await place.view()
        record = await owned(first)
        later = place.new_view()
        assert not later.records.is_read
        place.cut_off(later)
        later.begin()
        await asyncio.sleep(15)
        assert not later.records.is_read
        place.heal(later)
        await place.until(lambda: later.records.is_read)
        assert later.get(BUNDLE) == record

    play(scenario)


def test_who_has_not_read_what_is_there_does_not_replace_it(play: Play) -> None:
    async def scenario(place: Place) -> None:
        first = await place.view()
        record = await owned(first)
        later = place.new_view()
        later.begin()
        assert not await later.put(BUNDLE, None, events.assigning(None, "b:1", 2))
        await place.until(lambda: later.records.is_read)
        assert later.get(BUNDLE) == record
        assert first.get(BUNDLE) == record

    play(scenario)


def test_a_place_that_is_slow_to_one_loses_him_nothing(play: Play) -> None:
    async def scenario(place: Place) -> None:
        first, slow = await place.view(), await place.view()
        place.slow_down(slow, 1.0)
        made = await count_up(first, BUNDLE, 5)
        await place.until_read(made[-1], BUNDLE, slow)
        (record,) = await count_up(slow, BUNDLE, 1)
        await place.until_read(record, BUNDLE, first)

    play(scenario)


def test_catching_up_reads_all_that_was_written_before(play: Play) -> None:
    async def scenario(place: Place) -> None:
        first, slow = await place.view(), await place.view()
        place.slow_down(slow, 1.0)
        for _ in range(3):
            made = await count_up(first, BUNDLE, 3)
            assert slow.get(BUNDLE) != made[-1]
            await slow.catch_up()
            assert slow.get(BUNDLE) == made[-1]

    play(scenario)


@pytest.mark.parametrize("by", ["refresh", "time"])
def test_a_change_of_which_nobody_is_told_is_read_by_who_looks_or_in_time(play: Play, by: str) -> None:
    async def scenario(place: Place) -> None:
        first, deaf = await place.view(), await place.view()
        place.tell_nothing(deaf)
        made = await count_up(first, BUNDLE, 3)
        if by == "refresh":
            await asyncio.sleep(0.1)
            await deaf.run(deaf.records.refresh(BUNDLE))
            assert deaf.get(BUNDLE) == made[-1]
        else:
            await place.until_read(made[-1], BUNDLE, deaf)
        assert deaf.told(BUNDLE)[-1] == made[-1]

    play(scenario)


# ---- who replaces what


def test_of_several_who_replace_one_record_one_is_accepted_and_all_know_whose(play: Play) -> None:
    async def scenario(place: Place) -> None:
        views = [await place.view() for _ in range(4)]
        for round_ in range(5):
            offers = [events.claimed(view.get(BUNDLE), f"b{at}:1", round_, at) for at, view in enumerate(views)]
            before = views[0].get(BUNDLE)
            assert all(view.get(BUNDLE) == before for view in views)

            async def offer(view: View, record: ServiceUnitStateData) -> tuple[bool, Record]:
                accepted = await view.replace(BUNDLE, record)
                return accepted, view.get(BUNDLE)

            outcomes = await asyncio.gather(*map(offer, views, offers))
            (winner,) = [record for record, (accepted, _) in zip(offers, outcomes, strict=True) if accepted]
            assert [seen for _, seen in outcomes] == [winner] * len(views)
            for view in views:
                assert view.told(BUNDLE)[-1] == winner
                assert len(view.told(BUNDLE)) == round_ + 1

    play(scenario)


def test_what_would_replace_another_record_than_the_one_that_is_there_is_refused(play: Play) -> None:
    async def scenario(place: Place) -> None:
        view, witness = await place.view(), await place.view()
        first = await assigned(view)
        second = events.owned(first, 2, 7)
        assert await view.put(BUNDLE, view.get(BUNDLE), second)
        for before in (None, first):
            assert not await view.put(BUNDLE, before, events.claimed(second, "b:1", 3, 8))
            assert not await view.put(BUNDLE, before, None)
        await witness.catch_up()
        assert witness.told(BUNDLE) == view.told(BUNDLE) == [first, second]

    play(scenario)


Make = Callable[[ServiceUnitStateData], ServiceUnitStateData]

REFUSED: dict[str, tuple[Conflict, Make]] = {
    "of the same version": (Conflict.STALE, lambda it: of_version(events.releasing(it, "b:1", 3), it.version_id)),
    "by force, of an earlier version": (Conflict.STALE, lambda it: of_version(events.claimed(it, "b:1", 3, 8), 1)),
    "of a state that may not follow": (
        Conflict.TRANSITION,
        lambda it: of_version(events.freed(events.releasing(it, None, 3), 3), it.version_id + 1),
    ),
    "of other brokers": (
        Conflict.BROKERS,
        lambda it: events.releasing(msgspec.structs.replace(it, dst_broker="c:1"), "b:1", 3),
    ),
}
"""Records that may not follow an Owned one of broker a, and why."""


@pytest.mark.parametrize(("why", "make"), REFUSED.values(), ids=REFUSED)
def test_what_may_not_follow_is_refused_and_nobody_hears_of_it(play: Play, why: Conflict, make: Make) -> None:
    async def scenario(place: Place) -> None:
        view, witness = await place.view(), await place.view()
        record = await owned(view)
        offer = make(record)
        assert conflict(record, offer, place.storage) is why
        assert not await view.replace(BUNDLE, offer)
        await witness.catch_up()
        assert view.get(BUNDLE) == witness.get(BUNDLE) == record
        assert len(witness.changes) == len(view.changes) == 2

    play(scenario)


def test_force_needs_the_next_version_alone(play: Play) -> None:
    async def scenario(place: Place) -> None:
        view, witness = await place.view(), await place.view()
        record = await assigned(view, broker="a:1")
        taken = events.claimed(record, "b:1", 3, 8)
        assert conflict(record, msgspec.structs.replace(taken, force=False), place.storage) is not None
        assert await view.replace(BUNDLE, taken)
        await place.until(lambda: witness.told(BUNDLE) == [record, taken])

    play(scenario)


def test_after_the_greatest_version_comes_the_least(play: Play) -> None:
    """Another program wrote the last one; no broker counts that far."""

    async def scenario(place: Place) -> None:
        view = await place.view()
        last = of_version(events.claimed(None, "a:1", 1, 7), GREATEST_VERSION)
        await place.write(str(BUNDLE), encode_record(last))
        await place.until_read(last, BUNDLE, view)
        (record,) = await count_up(view, BUNDLE, 1)
        assert record.version_id < 0
        assert (await place.view()).get(BUNDLE) == record

    play(scenario)


# ---- tombstones


def test_a_tombstone_leaves_no_record_and_the_next_one_begins_anew(play: Play) -> None:
    async def scenario(place: Place) -> None:
        view, witness = await place.view(), await place.view()
        record = await owned(view)
        assert await view.replace(BUNDLE, None)
        assert view.changes[-1] == (BUNDLE, record, None)
        assert (view.get(BUNDLE), view.records.bundles()) == (None, [])
        await place.until(lambda: witness.told(BUNDLE)[-1:] == [None])
        assert (witness.get(BUNDLE), witness.records.bundles()) == (None, [])
        assert (await place.view()).changes[-1:] in ([], [(BUNDLE, record, None)])
        again = await assigned(witness, broker="b:1")
        assert again.version_id == 1
        await place.until_read(again, BUNDLE, view)
        assert (await place.view()).get(BUNDLE) == again

    play(scenario)


def test_a_tombstone_where_nothing_is_changes_nothing(play: Play) -> None:
    async def scenario(place: Place) -> None:
        view, witness = await place.view(), await place.view()
        assert await view.put(BUNDLE, None, None)
        await witness.catch_up()
        assert view.changes == witness.changes == []
        assert await assigned(view) == view.get(BUNDLE)

    play(scenario)


def test_of_a_tombstone_and_a_change_at_once_all_read_the_same(play: Play) -> None:
    """A tombstone after a change is accepted where the location does not compare versions: brokers delay tombstones
    for long."""

    async def scenario(place: Place) -> None:
        for _ in range(5):
            one, other = await place.view(), await place.view()
            before = await owned(one, epoch=1) if one.get(BUNDLE) is None else one.get(BUNDLE)
            await other.catch_up()
            change = events.claimed(before, "b:1", 3, 8)
            gone, changed = await asyncio.gather(one.replace(BUNDLE, None), other.replace(BUNDLE, change))
            assert gone or changed
            for view in (one, other):
                await view.catch_up()
            assert one.get(BUNDLE) == other.get(BUNDLE)
            assert (change in other.told(BUNDLE)) == changed
            assert (None in one.told(BUNDLE)) == gone
            if place.storage is StorageType.METADATA_STORE:
                assert gone != changed

    play(scenario)


# ---- a place out of reach


def test_out_of_reach_nothing_is_promised_and_what_was_read_stays(play: Play) -> None:
    async def scenario(place: Place) -> None:
        view, other = await place.view(), await place.view()
        record = await owned(view)
        place.cut_off(view)
        with pytest.raises(ChannelUnavailableError):
            await view.replace(BUNDLE, events.releasing(record, "b:1", 3))
        with pytest.raises(ChannelUnavailableError):
            await view.catch_up()
        await view.run(view.records.refresh(BUNDLE))
        assert view.get(BUNDLE) == record
        assert view.records.is_read
        assert [change.after for change in view.changes][-1] == record
        (elsewhere,) = await count_up(other, OTHER, 1)
        assert view.get(OTHER) is None
        place.heal(view)
        await place.until_read(elsewhere, OTHER, view)
        await other.catch_up()
        await place.until_read(other.get(BUNDLE), BUNDLE, view)

    play(scenario)


def test_back_in_reach_what_others_wrote_is_read_in_order_and_one_writes_again(play: Play) -> None:
    async def scenario(place: Place) -> None:
        view, other = await place.view(), await place.view()
        made: list[Record] = [await owned(view)]
        await place.until_read(made[0], BUNDLE, other)
        place.cut_off(view)
        made += await count_up(other, BUNDLE, 10)
        await asyncio.sleep(30)
        assert view.get(BUNDLE) == made[0]
        place.heal(view)
        await place.until_read(made[-1], BUNDLE, view)
        told = view.told(BUNDLE)[1:]
        assert told == [record for record in made if record in told]
        assert await view.replace(BUNDLE, events.claimed(view.get(BUNDLE), "a:1", 99, 99))

    play(scenario)


def test_what_was_written_though_nobody_answered_is_known_in_the_end(play: Play) -> None:
    async def scenario(place: Place) -> None:
        slow, other = await place.view(), await place.view()
        before = await owned(other)
        await place.until_read(before, BUNDLE, slow)
        place.slow_down(slow, 1.0)
        record = events.releasing(before, "b:1", 3)
        writing = asyncio.ensure_future(slow.put(BUNDLE, slow.get(BUNDLE), record))
        await place.until_read(record, BUNDLE, other)
        place.cut_off(slow)
        with pytest.raises(ChannelUnavailableError):
            await writing
        assert slow.get(BUNDLE) == before
        place.heal(slow)
        await place.until_read(record, BUNDLE, slow)
        assert slow.told(BUNDLE)[-1] == record
        assert await slow.replace(BUNDLE, events.handed_over(record, 4))

    play(scenario)


@pytest.mark.parametrize("what", ["record", "tombstone"])
def test_what_was_written_before_the_place_was_served_anew_is_known_to_be(play: Play, what: str) -> None:
    """Its broker dies after it stored a record and before it answered: the record is offered a second time."""

    async def scenario(place: Place) -> None:
        slow, other = await place.view(), await place.view()
        before = await owned(slow)
        after = events.releasing(before, "b:1", 3) if what == "record" else None
        place.slow_down(slow, 1.0)
        writing = asyncio.ensure_future(slow.replace(BUNDLE, after))
        await place.until(lambda: other.told(BUNDLE)[2:] == [after])
        await place.disturb()
        assert await writing
        assert slow.get(BUNDLE) == other.get(BUNDLE) == after

    play(scenario)


def test_a_place_that_is_served_anew_has_lost_nothing(play: Play) -> None:
    """Each time all sessions end, or the broker that serves the records dies."""

    async def scenario(place: Place) -> None:
        views = [await place.view() for _ in range(3)]
        made: list[Record] = []
        for turn in range(5):
            view = views[turn % 3]
            made += await count_up(view, BUNDLE, 2)
            await place.disturb()
            await place.until_read(made[-1], BUNDLE, *views)
            while not await is_taken(view, events.claimed(view.get(OTHER), "a:1", turn, turn)):
                await asyncio.sleep(0.1)
            await place.until_read(view.get(OTHER), OTHER, *views)
        later = await place.view()
        assert dict(later.records.items()) == dict(views[0].records.items())

    async def is_taken(view: View, record: ServiceUnitStateData) -> bool:
        try:
            return await view.replace(OTHER, record)
        except ChannelUnavailableError:
            return False

    play(scenario)


# ---- the end


def test_who_closed_is_told_nothing_and_writes_nothing_any_more(play: Play) -> None:
    async def scenario(place: Place) -> None:
        view, other = await place.view(), await place.view()
        record = await owned(view)
        await place.until_read(record, BUNDLE, other)
        told = list(view.changes)
        await view.run(view.records.close())
        await view.run(view.records.close())
        with pytest.raises(ChannelUnavailableError):
            await view.replace(BUNDLE, events.releasing(record, "b:1", 3))
        with pytest.raises(ChannelUnavailableError):
            await view.catch_up()
        await count_up(other, BUNDLE, 2)
        await view.run(view.records.refresh(BUNDLE))
        await asyncio.sleep(20)
        assert view.changes == told
        assert [change.after for change in other.changes[:2]] == [change.after for change in told]

    play(scenario)


def test_records_that_never_began_are_closed(play: Play) -> None:
    async def scenario(place: Place) -> None:
        view = place.new_view()
        await view.run(view.records.close())
        assert view.changes == []

    play(scenario)


def test_who_waits_while_it_closes_is_not_left_waiting(play: Play) -> None:
    async def scenario(place: Place) -> None:
        view, other = await place.view(), await place.view()
        record = await owned(view)
        await place.until_read(record, BUNDLE, other)
        place.cut_off(view)
        waiting = [
            asyncio.ensure_future(work)
            for work in (view.replace(BUNDLE, events.releasing(record, "b:1", 3)), view.catch_up())
        ]
        await asyncio.sleep(0.1)
        await view.run(view.records.close())
        outcomes = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(each) for each in outcomes] == [ChannelUnavailableError] * 2

    play(scenario)
