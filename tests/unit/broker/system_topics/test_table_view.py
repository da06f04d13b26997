"""The newest value of each key: the rule of replacement, listeners, bounds, and the lifetime of a view."""

import asyncio
from typing import Any

import pytest
from structlog.testing import capture_logs

from pulsar_barycenter.broker.system_topics.entries import encode_message
from pulsar_barycenter.broker.system_topics.errors import ClosedError, NotCaughtUpError
from pulsar_barycenter.broker.system_topics.settings import ClientSettings
from pulsar_barycenter.broker.system_topics.table_view import Accepts, TableView, newest_wins
from pulsar_barycenter.protocol import commands
from support.scripted_broker import Scene, ScriptedEnd, in_a_scene
from support.wire_client import entry_of

TOPIC = "persistent://pulsar/system/t"
SMALL = ClientSettings(max_keys=2, max_value_bytes=4, max_key_bytes=3)


class Played:
    """A started view, and the broker's end of it."""

    def __init__(self, view: TableView, end: ScriptedEnd, producer: Any, consumer: Any) -> None:
        self.view = view
        self.end = end
        self.producer = producer
        self.consumer = consumer
        self.changes: list[tuple[str, bytes | None, bytes | None]] = []
        view.listen(lambda *change: self.changes.append(change))
        self._entries = 0

    async def say(self, *messages: tuple[str | None, bytes | None]) -> None:
        """Have messages come."""
        for key, value in messages:
            entry = entry_of(value or b"") if key is None else encode_message("p", 0, 0, key, value)
            self.end.message(self.consumer, (1, self._entries), entry)
            self._entries += 1
        await asyncio.sleep(0.1)


async def started(scene: Scene, accepts: Accepts = newest_wins) -> Played:
    view = scene.client.table_view(TOPIC, accepts=accepts)
    starting = asyncio.create_task(view.start(60))
    end = await scene.broker.connection()
    producer = await end.accept_producer()
    consumer = await end.accept_consumer()
    await starting
    return Played(view, end, producer, consumer)


def test_the_newest_value_of_each_key_is_kept_and_tombstones_remove() -> None:
    async def test(scene: Scene) -> None:
        played = await started(scene)
        view = played.view
        assert view.is_caught_up
        await played.say(("a", b"1"), ("b", b"2"), ("a", b"3"), ("b", None), ("c", b"4"), ("c", b""), ("d", None))
        assert view.items() == [("a", b"3")]
        assert (view.get("a"), view.get("b"), len(view)) == (b"3", None, 1)
        assert played.changes == [
            ("a", None, b"1"), ("b", None, b"2"), ("a", b"1", b"3"), ("b", b"2", None),
            ("c", None, b"4"), ("c", b"4", None), ("d", None, None),
        ]  # fmt: skip

    in_a_scene(test)


def test_a_rule_decides_what_replaces_what_and_nobody_hears_of_refusals() -> None:
    def greater(before: bytes | None, after: bytes | None) -> bool:
        return before is None or (after is not None and after > before)

    async def test(scene: Scene) -> None:
        played = await started(scene, greater)
        await played.say(("a", b"2"), ("a", b"1"), ("a", b"3"), ("a", None))
        assert played.view.items() == [("a", b"3")]
        assert played.changes == [("a", None, b"2"), ("a", b"2", b"3")]

    in_a_scene(test)


def test_a_listener_finds_the_change_in_the_view_and_may_fail() -> None:
    async def test(scene: Scene) -> None:
        played = await started(scene)
        seen: list[bytes | None] = []

        def fails(key: str, before: bytes | None, after: bytes | None) -> None:
            seen.append(played.view.get(key))
            raise RuntimeError("a bug")

        played.view.listen(fails)
        played.view.listen(lambda key, before, after: seen.append(after))
        await played.say(("a", b"1"), ("a", None))
        assert seen == [b"1", b"1", None, None]

    in_a_scene(test)


def test_keys_and_values_beyond_the_bounds_are_told_once_and_ignored() -> None:
    async def test(scene: Scene) -> None:
        played = await started(scene)
        await played.say(("a", b"12345"), ("a", b"1"), ("long", b"1"), ("b", b"1"), ("c", b"1"), ("d", b"1"))
        assert dict(played.view.items()) == {"a": b"1", "b": b"1"}
        await played.say(("a", b"2"), ("a", b"12345"), ("b", None), ("c", b"1"))
        assert dict(played.view.items()) == {"a": b"2", "c": b"1"}

    with capture_logs() as lines:
        in_a_scene(test, SMALL)
    ignored = [line["reason"] for line in lines if line["event"] == "system_topic_value_ignored"]
    assert len(ignored) == len(set(ignored)) == 3


def test_a_message_without_a_key_is_not_of_the_view() -> None:
    async def test(scene: Scene) -> None:
        played = await started(scene)
        await played.say((None, b"1"))
        assert played.view.items() == []
        assert played.changes == []

    in_a_scene(test)


def test_put_and_remove_publish() -> None:
    async def test(scene: Scene) -> None:
        played = await started(scene)
        publishing = [asyncio.create_task(played.view.put("a", b"1")), asyncio.create_task(played.view.remove("a"))]
        await played.end.sends(2)
        for number in range(2):
            played.end.write(commands.send_receipt(played.producer.producer_id, number, 1, number, 0))
        assert [each.entry_id for each in await asyncio.gather(*publishing)] == [0, 1]
        assert played.view.items() == []  # not before its reader gets it

    in_a_scene(test)


def test_a_start_that_takes_too_long_fails_and_leaves_nothing() -> None:
    async def test(scene: Scene) -> None:
        scene.owner = None
        view = scene.client.table_view(TOPIC)
        began = scene.loop.time()
        with pytest.raises(NotCaughtUpError, match="within 3 s"):
            await view.start(3)
        assert scene.loop.time() - began == pytest.approx(3)
        with pytest.raises(ClosedError):
            await view.put("a", b"1")
        scene.owner = scene.broker.url
        starting = asyncio.create_task(view.start(30))
        end = await scene.broker.connection()
        await end.accept_producer()
        await end.accept_consumer()
        await starting

    in_a_scene(test)


def test_a_closed_view_can_be_read_and_started_anew_from_the_beginning() -> None:
    async def test(scene: Scene) -> None:
        played = await started(scene)
        view = played.view
        await view.start(1)
        await played.say(("a", b"1"), ("b", b"1"))
        await view.close()
        await view.close()
        assert not view.is_caught_up
        assert len(view) == 2
        starting = asyncio.create_task(view.start(60))
        await played.end.accept_producer()
        consumer = await played.end.accept_consumer((2, 0))
        assert len(view) == 0
        played.end.message(consumer, (2, 0), encode_message("p", 0, 0, "a", b"2"))
        await starting
        assert view.items() == [("a", b"2")]

    in_a_scene(test)
