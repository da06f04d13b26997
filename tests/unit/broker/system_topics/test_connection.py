"""The one connection that all clients share: handshake, sharing, keep-alive, changes of the owner, and the end."""

import asyncio

import pytest
from structlog.testing import capture_logs

from pulsar_barycenter.broker.system_topics.connection import address_of
from pulsar_barycenter.broker.system_topics.errors import ClosedError
from pulsar_barycenter.broker.system_topics.settings import ClientSettings
from pulsar_barycenter.protocol import commands
from pulsar_barycenter.protocol import pulsar_api_pb2 as api
from support.scripted_broker import TYPE, Scene, in_a_scene

TOPIC = "persistent://pulsar/system/t"
OTHER = "non-persistent://pulsar/system/u"


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("pulsar://a:1", ("a", 1, False)),
        ("pulsar://a", ("a", 6650, False)),
        ("pulsar://[::1]:7", ("::1", 7, False)),
        ("pulsar+ssl://a", ("a", 6651, True)),
    ],
)
def test_addresses(url: str, address: tuple[str, int, bool]) -> None:
    assert address_of(url) == address


@pytest.mark.parametrize("url", ["", "a:1", "pulsar://", "pulsar+tls://a:1", "pulsar://a:x", "http://a:1"])
def test_what_is_no_address(url: str) -> None:
    with pytest.raises(ValueError):
        address_of(url)


def test_publishers_and_readers_share_one_connection() -> None:
    async def test(scene: Scene) -> None:
        scene.client.publisher(TOPIC)
        scene.client.publisher(OTHER)
        scene.client.reader(TOPIC, lambda *_: None)
        end = await scene.broker.connection()
        topics = {(await end.accept_producer()).topic, (await end.accept_producer()).topic}
        await end.accept_consumer()
        assert topics == {TOPIC, OTHER}
        assert not scene.broker.has_more

    in_a_scene(test)


def test_a_broker_that_says_nothing_is_gone_after_two_intervals() -> None:
    async def test(scene: Scene) -> None:
        publisher = scene.client.publisher(TOPIC)
        end = await scene.broker.connection()
        await end.accept_producer()
        end.answers_pings = False
        began = scene.loop.time()
        await end.expect_closed()
        assert 30 < scene.loop.time() - began <= 61
        end = await scene.broker.connection()
        await end.accept_producer()
        await asyncio.sleep(200)
        assert publisher.is_attached
        assert not end.is_closed

    in_a_scene(test)


def test_a_change_of_the_owner_moves_everybody_at_once() -> None:
    async def test(scene: Scene) -> None:
        scene.client.publisher(TOPIC)
        scene.client.reader(TOPIC, lambda *_: None)
        former = await scene.broker.connection()
        await former.accept_producer()
        await former.accept_consumer()
        await asyncio.sleep(1)
        new = scene.new_broker("broker-b")
        scene.owner = new.url
        began = scene.loop.time()
        scene.client.owner_changed()
        end = await new.connection()
        await end.accept_producer()
        await end.accept_consumer()
        assert scene.loop.time() - began < 0.1
        await former.expect_closed()

    in_a_scene(test)


def test_nobody_leads_then_somebody_does() -> None:
    async def test(scene: Scene) -> None:
        former = scene.broker
        scene.client.publisher(TOPIC)
        end = await former.connection()
        await end.accept_producer()
        scene.owner = None
        scene.client.owner_changed()
        await end.expect_closed()
        await asyncio.sleep(60)
        assert not former.has_more
        scene.owner = former.url
        began = scene.loop.time()
        scene.client.owner_changed()
        await (await former.connection()).accept_producer()
        assert scene.loop.time() - began < 0.1

    in_a_scene(test)


def test_a_hint_keeps_the_connection_to_an_owner_that_stays_and_gives_a_sign_of_life() -> None:
    async def test(scene: Scene) -> None:
        scene.client.publisher(TOPIC)
        end = await scene.broker.connection()
        await end.accept_producer()
        for _ in range(3):
            scene.client.owner_changed()
        await asyncio.sleep(20)
        assert not end.is_closed
        end.answers_pings = False
        began = scene.loop.time()
        scene.client.owner_changed()
        await end.expect_closed()
        assert scene.loop.time() - began < 6

    in_a_scene(test)


def test_an_answer_of_before_the_owner_changed_is_asked_again() -> None:
    async def test(scene: Scene) -> None:
        async def slow() -> str | None:
            answer = scene.owner
            await asyncio.sleep(1)
            return answer

        scene.find_broker = slow
        scene.client.publisher(TOPIC)
        await asyncio.sleep(0.5)
        new = scene.new_broker("broker-b")
        scene.owner = new.url
        scene.client.owner_changed()
        await (await new.connection()).accept_producer()
        assert not scene.broker.has_more

    in_a_scene(test)


def test_a_broker_that_reads_no_more_is_given_up_before_much_is_kept_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Though it goes on talking, which counts as a sign of life."""
    monkeypatch.setattr("pulsar_barycenter.broker.system_topics.connection.MOST_UNWRITTEN_BYTES", 500_000)

    async def test(scene: Scene) -> None:
        publisher = scene.client.publisher(TOPIC)
        end = await scene.broker.connection()
        await end.accept_producer()
        end.transport.pause_reading()
        publishing: list[asyncio.Task[object]] = []
        while not end.is_closed and len(publishing) < 100:
            publishing.append(asyncio.create_task(publisher.publish("k", b"v" * 100_000, timeout_s=1)))
            for _ in range(4):
                end.write(commands.PING)
                await asyncio.sleep(0.5)
        assert 4 <= len(publishing) <= 7
        await asyncio.gather(*publishing, return_exceptions=True)

    in_a_scene(test)


def test_who_serves_is_asked_before_each_attempt_and_a_broker_that_is_not_ready_again() -> None:
    async def test(scene: Scene) -> None:
        scene.client.publisher(TOPIC)
        end = await scene.broker.connection()
        for attempt in range(4):
            request, _ = await end.take(TYPE.PRODUCER)
            assert scene.asked == attempt + 1
            end.write(commands.error(request.request_id, api.ServiceNotReady, "not yet"))
        await end.accept_producer()

    in_a_scene(test)


def test_waits_between_attempts_grow_to_the_longest() -> None:
    async def test(scene: Scene) -> None:
        scene.broker.server.close()
        scene.client.publisher(TOPIC)
        await asyncio.sleep(100)
        assert 20 < scene.asked < 60

    in_a_scene(test)


def test_the_log_tells_changes_and_no_attempts() -> None:
    async def test(scene: Scene) -> None:
        scene.owner = None
        scene.client.publisher(TOPIC)
        await asyncio.sleep(30)
        scene.owner = scene.broker.url
        end = await scene.broker.connection()
        await end.accept_producer()
        await asyncio.sleep(1)
        scene.owner = None
        end.close()
        await asyncio.sleep(30)

    with capture_logs() as lines:
        in_a_scene(test)
    assert [line["event"] for line in lines] == [
        "system_topic_detached", "system_topic_attached", "system_topic_detached",
    ]  # fmt: skip
    assert "no broker serves" in lines[0]["reason"]


def test_asking_who_serves_may_fail_or_hang() -> None:
    async def test(scene: Scene) -> None:
        async def fails() -> str | None:
            raise RuntimeError("no store")

        async def hangs() -> str | None:
            await asyncio.Event().wait()
            return None

        scene.find_broker = fails
        scene.client.publisher(TOPIC)
        await asyncio.sleep(5)
        scene.find_broker = hangs
        await asyncio.sleep(60)
        scene.find_broker = scene.find_owner
        await (await scene.broker.connection()).accept_producer()

    in_a_scene(test)


@pytest.mark.parametrize(
    "frame",
    [
        b"\xff\xff\xff\xff\xff\xff\xff\xff",
        b"\x00\x00\x00\x06\x00\x00\x00\x02\xff\xff",
        commands.error(commands.NO_REQUEST, api.UnknownError, "go away"),
        commands.lookup_connect(1, "pulsar://x:1")[:4] + b"\x00\x00\x00\xff",
    ],
)
def test_a_broker_that_breaks_the_protocol_loses_the_connection_and_gets_another(frame: bytes) -> None:
    async def test(scene: Scene) -> None:
        scene.client.publisher(TOPIC)
        end = await scene.broker.connection()
        await end.accept_producer()
        end.write(frame)
        await end.expect_closed()
        await (await scene.broker.connection()).accept_producer()

    in_a_scene(test)


def test_what_answers_nothing_is_passed_over() -> None:
    async def test(scene: Scene) -> None:
        publisher = scene.client.publisher(TOPIC)
        end = await scene.broker.connection()
        producer = await end.accept_producer()
        end.write(
            commands.success(999),
            commands.error(999, api.UnknownError, "what?"),
            commands.send_receipt(999, 0, 1, 1, 0),
            commands.send_error(999, 0, api.PersistenceError, "what?"),
            commands.message_header(999, 1, 1, 1) + b"x",
            commands.close_producer(999),
            commands.close_consumer(producer.producer_id),
            commands.active_consumer_change(1, is_active=True),
        )
        await asyncio.sleep(1)
        assert publisher.is_attached

    in_a_scene(test)


def test_a_broker_that_refuses_to_greet_or_asks_who_we_are() -> None:
    async def test(scene: Scene) -> None:
        silent = scene.new_broker("broker-b", greets=False)
        scene.owner = silent.url
        scene.client.publisher(TOPIC)
        end = await silent.connection()
        began = scene.loop.time()
        await end.expect_closed()
        assert scene.loop.time() - began <= 10.1
        end = await silent.connection()
        end.write(commands.error(0, api.AuthenticationError, "who are you?"))
        await end.expect_closed()
        end = await silent.connection()
        end.write(commands.command_frame(TYPE.AUTH_CHALLENGE, protocol_version=19))
        await end.expect_closed()
        scene.owner = scene.broker.url
        await (await scene.broker.connection()).accept_producer()

    in_a_scene(test)


def test_closing_says_farewell_and_refuses_what_comes_later() -> None:
    async def test(scene: Scene) -> None:
        publisher = scene.client.publisher(TOPIC)
        end = await scene.broker.connection()
        producer = await end.accept_producer()
        await scene.client.close()
        await scene.client.close()
        closed, _ = await end.take(TYPE.CLOSE_PRODUCER)
        assert closed.producer_id == producer.producer_id
        await end.expect_closed()
        scene.client.owner_changed()
        with pytest.raises(ClosedError):
            await publisher.publish("k", b"v")
        for make in (scene.client.publisher, lambda topic: scene.client.reader(topic, lambda *_: None)):
            with pytest.raises(ClosedError):
                make(TOPIC)

    in_a_scene(test)


@pytest.mark.parametrize("moment_s", [0.0, 0.0001, 0.002, 0.004, 0.006, 0.01, 0.02])
def test_closing_at_any_moment_of_attaching_leaves_nothing(moment_s: float) -> None:
    async def test(scene: Scene) -> None:
        scene.client.publisher(TOPIC)
        view = scene.client.table_view(TOPIC)
        starting = asyncio.create_task(view.start(60))
        await asyncio.sleep(moment_s)
        await scene.client.close()
        with pytest.raises(ClosedError):
            await starting

    in_a_scene(test)


def test_a_broker_that_takes_nothing_does_not_hold_up_the_end() -> None:
    async def test(scene: Scene) -> None:
        publisher = scene.client.publisher(TOPIC)
        end = await scene.broker.connection()
        await end.accept_producer()
        end.transport.pause_reading()
        publishing = asyncio.create_task(publisher.publish("k", b"v" * 100_000))
        await asyncio.sleep(0.1)
        await scene.client.close()
        with pytest.raises(Exception, match="closed"):
            await publishing

    in_a_scene(test, ClientSettings(probe_s=1))


def test_doubts_that_go_on_do_not_put_off_the_end_of_a_dead_connection() -> None:
    async def test(scene: Scene) -> None:
        connecting = asyncio.create_task(scene.client.connection())
        end = await scene.broker.connection()
        connection = await connecting
        end.transport.pause_reading()
        for _ in range(10):
            connection.probe()
            await asyncio.sleep(0.5)
        assert connection.is_lost

    in_a_scene(test, ClientSettings(probe_s=1))
