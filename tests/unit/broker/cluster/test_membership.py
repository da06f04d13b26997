"""The members of the cluster, the leader, and the configuration."""

import asyncio
import dataclasses
import re

import msgspec
import pytest

from pulsar_barycenter.broker.cluster.dynamic_configuration import CONFIGURATION_PATH
from pulsar_barycenter.broker.cluster.leadership import LEADER_PATH
from pulsar_barycenter.broker.cluster.lookup_answers import ListenerNotFoundError, ListenerUrls, Owner
from pulsar_barycenter.broker.cluster.registration import BROKERS_ROOT
from pulsar_barycenter.broker.cluster.service_urls import ServiceUrls, assigned_urls, parse_advertised_listeners
from pulsar_barycenter.broker.load_manager.noop_load_manager import NoopLoadManager
from pulsar_barycenter.broker.start_errors import BrokerIdInUseError
from pulsar_barycenter.config.addresses import ListenerError
from pulsar_barycenter.config.broker_conf import ConfigError
from pulsar_barycenter.metadata.store import NotificationType
from support.control_cluster import (
    NAMESPACE,
    SESSION_S,
    ControlBroker,
    ControlCluster,
    HashLoadManager,
    on_virtual_time,
    topic,
)


class CountingLoadManager(HashLoadManager):
    """Counts what the broker has it do."""

    def __init__(self, context):
        super().__init__(context)
        self.calls: list[str] = []

    async def shed(self):
        self.calls.append("shed")

    async def check_splits(self):
        self.calls.append("split")

    async def write_resource_quotas(self):
        self.calls.append("quota")

    async def write_report(self, *, force=False):
        self.calls.append("report")
        return True


async def three(cluster: ControlCluster) -> list[ControlBroker]:
    await cluster.create_namespace(4)
    return [await cluster.add(port, CountingLoadManager) for port in (8081, 8082, 8083)]


def leaders(brokers: list[ControlBroker]) -> list[ControlBroker]:
    return [broker for broker in brokers if broker.plane.leadership.is_leader()]


# ---- leadership ----


def test_one_broker_leads_and_only_it_has_the_duties_of_the_leader():
    async def scenario(cluster):
        brokers = await three(cluster)
        [leader] = leaders(brokers)
        value = msgspec.json.decode((await cluster.admin.get(LEADER_PATH)).value)
        assert value == {"brokerId": leader.broker_id, "serviceUrl": leader.urls.web_url}
        await asyncio.sleep(20 * 60)
        for broker in brokers:
            calls = broker.plane.load_manager.calls
            assert ("shed" in calls) == ("quota" in calls) == ("split" in calls) == (broker is leader)
            assert abs(calls.count("report") - 20 * 60 // 5) <= 1
        assert abs(leader.plane.load_manager.calls.count("shed") - 20) <= 1
        assert all(broker.plane.leadership.leader().broker_id == leader.broker_id for broker in brokers)

    on_virtual_time(scenario)


def test_leadership_and_its_duties_move_when_the_leader_dies():
    async def scenario(cluster):
        brokers = await three(cluster)
        [leader] = leaders(brokers)
        leader.crash()
        others = [broker for broker in brokers if broker is not leader]
        await cluster.until(lambda: len(leaders(others)) == 1, "another leads", within_s=SESSION_S + 1)
        [successor] = leaders(others)
        await asyncio.sleep(90)
        assert "shed" in successor.plane.load_manager.calls
        assert leader.broker_id not in successor.plane.registration.brokers

    on_virtual_time(scenario)


def test_a_leader_without_session_stops_leading_before_another_can():
    async def scenario(cluster):
        brokers = await three(cluster)
        [leader] = leaders(brokers)
        cluster.backend.partition(leader.store)
        while leader.plane.leadership.is_leader():
            assert leaders(brokers) == [leader]
            await asyncio.sleep(0.05)
        await cluster.until(lambda: len(leaders(brokers)) == 1, "another leads")
        calls = len([call for call in leader.plane.load_manager.calls if call == "shed"])
        cluster.backend.heal(leader.store)
        await asyncio.sleep(120)
        assert len(leaders(brokers)) == 1
        assert leaders(brokers) != [leader]
        assert [call for call in leader.plane.load_manager.calls if call == "shed"][calls:] == []
        assert leader.plane.leadership.leader().broker_id == leaders(brokers)[0].broker_id

    on_virtual_time(scenario)


def test_a_leader_whose_session_ended_unnoticed_leads_again_only_if_it_is_elected_again():
    async def scenario(cluster):
        brokers = await three(cluster)
        [leader] = leaders(brokers)
        cluster.backend.expire_session(leader.store)
        for _ in range(400):
            await asyncio.sleep(0.05)
            key = await cluster.admin.get(LEADER_PATH)
            if key is not None and len(leaders(brokers)) == 1 and cluster.loop.time() > 1010:
                break
        assert len(leaders(brokers)) == 1
        assert msgspec.json.decode(key.value)["brokerId"] == leaders(brokers)[0].broker_id

    on_virtual_time(scenario)


def test_a_failing_duty_is_repeated():
    class FailingLoadManager(CountingLoadManager):
        async def shed(self):
            await super().shed()
            raise RuntimeError("boom")

    async def scenario(cluster):
        await cluster.create_namespace(1)
        broker = await cluster.add(8081, FailingLoadManager)
        await asyncio.sleep(200)
        assert broker.plane.load_manager.calls.count("shed") == 3

    on_virtual_time(scenario)


# ---- registration ----


def test_a_broker_registers_only_at_the_end_of_its_start():
    async def scenario(cluster):
        await cluster.create_namespace(1)
        seen = []
        cluster.admin.add_listener(lambda told: seen.append(told))
        broker = await cluster.add(8081)
        created = [told.path for told in seen if told.type is NotificationType.CREATED]
        registered = created.index(f"{BROKERS_ROOT}/{broker.broker_id}")
        assert created.index(LEADER_PATH) < registered
        assert created.index(f"/namespace/pulsar/{broker.broker_id}/0x00000000_0xffffffff") < registered
        report = await broker.run(broker.plane.registration.data_of(broker.broker_id))
        assert report.pulsar_service_url == broker.urls.broker_url

    on_virtual_time(scenario)


def test_a_second_process_with_the_id_of_a_running_broker_is_refused_and_disturbs_nothing():
    async def scenario(cluster):
        await cluster.create_namespace(1)
        first = await cluster.add(8081)
        await cluster.follow(topic("t"), first)
        epoch = first.plane.ownership.owned(first.owned[0]).epoch
        second = ControlBroker(cluster, 8081, HashLoadManager)
        with pytest.raises(BrokerIdInUseError, match=r"127\.0\.0\.1:8081.*advertisedAddress or webServicePort"):
            await second.start()
        assert first.plane.registration.is_registered
        assert first.plane.ownership.owned(first.owned[0]).epoch == epoch

    on_virtual_time(scenario)


def test_a_restarted_broker_waits_for_the_session_of_its_former_life_to_end():
    async def scenario(cluster):
        await cluster.create_namespace(1)
        first = await cluster.add(8081)
        await cluster.follow(topic("t"), first)
        first.crash()
        began = cluster.loop.time()
        second = await cluster.add(8081)
        assert 0 < cluster.loop.time() - began <= SESSION_S + 1
        answer = await cluster.follow(topic("t"), second)
        assert isinstance(answer, Owner)
        assert answer.is_local

    on_virtual_time(scenario)


def test_a_registration_that_somebody_deleted_comes_back():
    async def scenario(cluster):
        await cluster.create_namespace(1)
        broker = await cluster.add(8081)
        await cluster.admin.delete(f"{BROKERS_ROOT}/{broker.broker_id}")
        await asyncio.sleep(2)
        assert await cluster.admin.exists(f"{BROKERS_ROOT}/{broker.broker_id}")
        assert broker.plane.registration.is_registered

    on_virtual_time(scenario)


def test_the_list_of_brokers_is_right_although_no_notification_arrives():
    async def scenario(cluster):
        await cluster.create_namespace(1)
        first = await cluster.add(8081)
        cluster.backend.route_notifications(first.store, lambda told: None)
        second = await cluster.add(8082)
        await cluster.until(lambda: second.broker_id in first.plane.registration.brokers, "seen", within_s=6)

    on_virtual_time(scenario)


def test_a_broker_whose_coming_was_told_to_nobody_is_known_as_soon_as_it_is_seen():
    """A client had asked for it before, so its absence was cached."""

    async def scenario(cluster):
        await cluster.create_namespace(1)
        first, second = await cluster.add(8081), cluster.make(8082)
        registration = first.plane.registration
        cluster.backend.route_notifications(first.store, lambda told: None)
        assert await first.run(registration.urls_of(second.broker_id)) is None
        await second.start()
        await cluster.until(lambda: second.broker_id in registration.brokers, "seen", within_s=6)
        assert (await first.run(registration.urls_of(second.broker_id))).web_url == second.urls.web_url

    on_virtual_time(scenario)


# ---- dynamic configuration ----


def test_an_override_takes_effect_on_every_broker_and_tells_its_listeners():
    async def scenario(cluster):
        brokers = await three(cluster)
        told = []
        brokers[2].config.on_change("loadBalancerSheddingEnabled", lambda config: told.append(config))
        await brokers[0].run(brokers[0].plane.dynamic_configuration.set("loadBalancerSheddingEnabled", "false"))
        assert brokers[0].config.current.load_balancer_shedding_enabled is False
        await cluster.until(
            lambda: all(not b.config.current.load_balancer_shedding_enabled for b in brokers), "applied"
        )
        assert [config.load_balancer_shedding_enabled for config in told] == [False]
        late = await cluster.add(8084)
        assert late.config.current.load_balancer_shedding_enabled is False
        await brokers[1].run(brokers[1].plane.dynamic_configuration.remove("loadBalancerSheddingEnabled"))
        await asyncio.sleep(1)
        assert msgspec.json.decode((await cluster.admin.get(CONFIGURATION_PATH)).value) == {}
        assert brokers[0].config.current.load_balancer_shedding_enabled is False  # until it restarts

    on_virtual_time(scenario)


@pytest.mark.parametrize(
    ("key", "value"), [("clusterName", "x"), ("nonsense", "1"), ("brokerShutdownTimeoutMs", "soon")]
)
def test_what_is_not_dynamic_or_not_allowed_is_refused_and_not_stored(key, value):
    async def scenario(cluster):
        await cluster.create_namespace(1)
        broker = await cluster.add(8081)
        with pytest.raises(ConfigError):
            await broker.run(broker.plane.dynamic_configuration.set(key, value))
        assert not await cluster.admin.exists(CONFIGURATION_PATH)

    on_virtual_time(scenario)


def test_overrides_that_this_broker_cannot_use_are_passed_over():
    async def scenario(cluster):
        await cluster.create_namespace(1)
        stored = {"unknownKey": "1", "maxConcurrentLookupRequest": "many", "brokerShutdownTimeoutMs": "7000"}
        await cluster.admin.put(CONFIGURATION_PATH, msgspec.json.encode(stored))
        broker = await cluster.add(8081)
        assert broker.config.current.broker_shutdown_timeout_ms == 7000
        assert broker.config.current.max_concurrent_lookup_request == 50_000

    on_virtual_time(scenario)


def test_overrides_set_at_once_by_several_brokers_are_all_kept():
    async def scenario(cluster):
        brokers = await three(cluster)
        keys = ["brokerShutdownTimeoutMs", "maxConcurrentLookupRequest", "namespaceBundleUnloadingTimeoutMs"]
        await asyncio.gather(
            *(b.run(b.plane.dynamic_configuration.set(key, "4321")) for b, key in zip(brokers, keys, strict=True))
        )
        assert msgspec.json.decode((await cluster.admin.get(CONFIGURATION_PATH)).value) == dict.fromkeys(keys, "4321")

    on_virtual_time(scenario)


# ---- bundles and addresses ----


def test_the_local_record_is_made_once_from_the_policies():
    async def scenario(cluster):
        brokers = await three(cluster)
        made = await asyncio.gather(*(broker.run(broker.plane.bundles.get(NAMESPACE)) for broker in brokers))
        assert {each.boundaries for each in made} == {(0, 0x40000000, 0x80000000, 0xC0000000, 0xFFFFFFFF)}
        assert {each.version for each in made} == {0}
        assert len(await cluster.boundaries()) == 5

    on_virtual_time(scenario)


def test_boundaries_changed_elsewhere_are_seen_even_without_notification():
    async def scenario(cluster):
        brokers = await three(cluster)
        first, second, _ = brokers
        await asyncio.gather(*(broker.run(broker.plane.bundles.get(NAMESPACE)) for broker in brokers))
        cluster.backend.route_notifications(second.store, lambda told: None)
        owner = cluster.brokers[(await cluster.follow(topic("t"), first)).broker_id]
        bundle = await owner.run(owner.plane.lookup.bundle_of(topic("t")))
        await owner.run(owner.plane.namespaces.split_bundle(bundle, algorithm="range_equally_divide"))
        assert (await cluster.follow(topic("t"), second)).broker_id == owner.broker_id
        await asyncio.sleep(61)
        assert len((await second.run(second.plane.bundles.get(NAMESPACE))).bundles) == 5

    on_virtual_time(scenario)


def test_advertised_listeners_are_parsed_and_answered_by_name():
    listeners = parse_advertised_listeners(
        "internal:pulsar://in:6650, external:pulsar://out:1,external:pulsar+ssl://out:2"
    )
    assert listeners == {
        "internal": ListenerUrls("pulsar://in:6650"),
        "external": ListenerUrls("pulsar://out:1", "pulsar+ssl://out:2"),
    }
    urls = ServiceUrls("b:80", "pulsar://b:6650", web_url="http://b:80", listeners=listeners)
    assert urls.owner(is_local=True, epoch=1, listener="external").broker_url == "pulsar://out:1"
    assert urls.owner(is_local=True, epoch=1).broker_url == "pulsar://b:6650"
    with pytest.raises(ListenerNotFoundError, match="nowhere"):
        urls.redirect(authoritative=True, listener="nowhere")


def test_the_internal_listener_is_that_of_whoever_names_none():
    listeners = "outside:pulsar://out:1, inside:pulsar://in:2,outside:pulsar+ssl://out:3"
    plain = ServiceUrls.of_ports("b", 6650, 80, listeners)
    assert plain.broker_urls("") == ("pulsar://b:6650", None)
    inside = ServiceUrls.of_ports("b", 6650, 80, listeners, broker_port_tls=6651, internal_listener="inside")
    assert inside.broker_urls("") == ("pulsar://in:2", "pulsar+ssl://b:6651")
    assert inside.broker_urls("outside") == ("pulsar://out:1", "pulsar+ssl://out:3")
    assert (inside.broker_id, inside.web_url) == ("b:80", "http://b:80")
    assert inside.listeners["outside"] == plain.listeners["outside"]


def test_a_broker_has_an_internal_listener_with_all_of_its_urls():
    """Brokers of Pulsar 5 send clients only to brokers that have it, and its URL for HTTP."""
    plain = ServiceUrls.of_ports("b", 6650, 80)
    assert plain.listeners == {"internal": ListenerUrls("pulsar://b:6650", None, "http://b:80")}
    listeners = "outside:pulsar://out:1,inside:pulsar://in:2"
    secure = ServiceUrls.of_ports("b", 6650, 80, listeners, broker_port_tls=6651, web_port_tls=443)
    assert secure.listeners == {
        "outside": ListenerUrls("pulsar://out:1"),
        "inside": ListenerUrls("pulsar://in:2"),
        "internal": ListenerUrls("pulsar://b:6650", "pulsar+ssl://b:6651", "http://b:80", "https://b:443"),
    }
    named = ServiceUrls.of_ports("b", 6650, 80, listeners, internal_listener="inside")
    assert named.listeners["inside"] == ListenerUrls("pulsar://in:2", None, "http://b:80")
    assert "internal" not in named.listeners


def test_a_client_gets_the_next_owner_unless_other_urls_may_be_meant():
    plain = ServiceUrls.of_ports("b", 6650, 80)
    assert assigned_urls(plain, None) == assigned_urls(plain, "") == ("pulsar://b:6650", None)
    assert assigned_urls(plain, "internal") == ("pulsar://b:6650", None)
    several = ServiceUrls.of_ports("b", 6650, 80, "outside:pulsar://out:1")
    assert assigned_urls(several, None) == (None, None)
    assert assigned_urls(several, "outside") == ("pulsar://out:1", None)


def test_a_registration_without_balancing_tells_all_that_a_broker_is():
    """Every URL of every listener, and which topics it serves."""
    listener = ListenerUrls("pulsar://out:1", "pulsar+ssl://out:2", "http://out:3", "https://out:4")

    async def scenario(cluster):
        first, second = cluster.make(8081, NoopLoadManager), cluster.make(8082, NoopLoadManager)
        first.urls = dataclasses.replace(first.urls, listeners={"external": listener})
        first.config.current = msgspec.structs.replace(first.config.current, enable_non_persistent_topics=False)
        for broker in (first, second):
            await broker.start()
        urls = await second.run(second.plane.registration.urls_of(first.broker_id))
        assert urls == first.urls
        report = await second.run(second.plane.registration.data_of(first.broker_id))
        assert not report.non_persistent_topics_enabled
        assert report.load_manager_class_name.endswith(".NoopLoadManager")

    on_virtual_time(scenario)


@pytest.mark.parametrize("text", ["pulsar://a:1", "x:http://a:1", "x:pulsar://a:1,x:pulsar://b:1", "x"])
def test_a_bad_listener_is_named(text):
    with pytest.raises(ListenerError, match=re.escape(repr(text.rpartition(",")[2]))):
        parse_advertised_listeners(text)
