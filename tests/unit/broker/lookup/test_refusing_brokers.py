"""Lookups are not answered with brokers that refuse connections."""

import asyncio

import pytest

from pulsar_barycenter.broker.cluster.lookup_answers import Owner
from pulsar_barycenter.broker.control import parts
from pulsar_barycenter.broker.lookup import refusing_brokers
from pulsar_barycenter.broker.lookup.refusing_brokers import ASK_AGAIN_S, VALID_S, RefusingBrokers, refuses_connections
from pulsar_barycenter.standalone.cluster import free_ports
from support.control_cluster import ControlCluster, on_virtual_time, topic
from support.known_failures import owner_first, three

URL = "pulsar://a:6650"
LONGEST_S = 20.0


class Brokers:
    """Which of them refuse connections, and how often that was asked."""

    def __init__(self) -> None:
        self.refusing: set[str] = set()
        self.asked = 0

    async def refuses(self, url: str) -> bool:
        self.asked += 1
        await asyncio.sleep(0.01)
        return url in self.refusing


def test_a_broker_that_refuses_is_a_dead_end_until_it_accepts_again() -> None:
    async def scenario(_: ControlCluster) -> None:
        brokers = Brokers()
        ways = RefusingBrokers(brokers.refuses, longest_s=LONGEST_S)
        assert not ways.refuses(URL), "nothing is known of it"
        await asyncio.sleep(0.1)
        brokers.refusing = {URL}
        assert not ways.refuses(URL), "it accepted a moment ago"
        await asyncio.sleep(VALID_S)
        ways.refuses(URL)
        await asyncio.sleep(0.1)
        assert ways.refuses(URL)
        assert not ways.refuses("pulsar://b:6650")
        brokers.refusing = set()
        await asyncio.sleep(ASK_AGAIN_S)
        ways.refuses(URL)
        await asyncio.sleep(0.1)
        assert not ways.refuses(URL)
        await ways.close()

    on_virtual_time(scenario)


def test_what_refuses_for_longer_than_any_session_lives_and_is_reached_in_another_way() -> None:
    async def scenario(cluster: ControlCluster) -> None:
        brokers = Brokers()
        brokers.refusing = {URL}
        ways = RefusingBrokers(brokers.refuses, longest_s=LONGEST_S)
        began, held_s = cluster.loop.time(), 0.0
        while cluster.loop.time() < began + 3 * LONGEST_S:
            if ways.refuses(URL):
                held_s = cluster.loop.time() - began
            await asyncio.sleep(0.1)
        assert LONGEST_S - 1 < held_s < LONGEST_S + 1
        assert not ways.refuses(URL)
        await ways.close()

    on_virtual_time(scenario)


def test_however_many_look_ups_there_are_a_broker_is_asked_seldom() -> None:
    async def scenario(_: ControlCluster) -> None:
        brokers = Brokers()
        ways = RefusingBrokers(brokers.refuses, longest_s=LONGEST_S)
        for _number in range(1000):
            ways.refuses(URL)
            await asyncio.sleep(0.01)
        assert brokers.asked == pytest.approx(10 / VALID_S, abs=1)
        await ways.close()

    on_virtual_time(scenario)


def test_addresses_that_were_seen_first_are_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(_: ControlCluster) -> None:
        monkeypatch.setattr(refusing_brokers, "_MAX_ADDRESSES", 2)
        brokers = Brokers()
        brokers.refusing = {f"pulsar://{name}:1" for name in "abc"}
        ways = RefusingBrokers(brokers.refuses, longest_s=LONGEST_S)
        for name in "abc":
            ways.refuses(f"pulsar://{name}:1")
        await asyncio.sleep(0.1)
        assert [ways.refuses(f"pulsar://{name}:1") for name in "bca"] == [True, True, False]
        await ways.close()

    on_virtual_time(scenario)


async def test_a_port_at_which_nobody_listens_refuses_and_one_at_which_somebody_does_accepts() -> None:
    (port,) = free_ports(1)
    assert await refuses_connections(f"pulsar://127.0.0.1:{port}")
    server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", port)
    async with server:
        assert not await refuses_connections(f"pulsar://127.0.0.1:{port}")


@pytest.mark.parametrize("url", ["", "pulsar://", "pulsar://a:b", "pulsar://no-such-host.invalid:6650"])
async def test_an_address_that_leads_nowhere_tells_nothing(url: str) -> None:
    assert not await refuses_connections(url)


def test_look_ups_of_a_dead_brokers_bundles_are_held_until_others_may_have_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its session goes on for a while; a client that is sent to it would be refused again and again."""
    dead: set[str] = set()

    async def refuses(url: str) -> bool:
        return url in dead

    monkeypatch.setattr(parts, "refuses_connections", refuses)

    async def scenario(cluster: ControlCluster) -> None:
        brokers = await three(cluster)
        (owner, *others), bundle = await owner_first(cluster, brokers)
        for broker in others:
            await cluster.follow(topic("t"), broker)
        owner.crash()
        dead.add(owner.urls.broker_url or "")
        await asyncio.sleep(VALID_S)
        for broker in others:
            broker.plane.lookup.lookup_cached(topic("t"))  # the first one that asks is sent there
        await asyncio.sleep(0.1)
        answers = await asyncio.gather(*(cluster.follow(topic("t"), broker) for broker in others))
        assert all(isinstance(answer, Owner) for answer in answers)
        assert [answer.broker_id for answer in answers] == 2 * cluster.servers(bundle)

    on_virtual_time(scenario)
