"""The no-op load manager: every broker takes the bundles that it is asked for, and nothing else happens."""

import msgspec
import pytest

from pulsar_barycenter.broker.load_manager.factory import load_manager_factory
from pulsar_barycenter.broker.load_manager.noop_load_manager import NoopLoadManager
from pulsar_barycenter.load.reasons import Code
from pulsar_barycenter.load.reports.load_report import LocalBrokerData
from pulsar_barycenter.naming.bundle import Bundle
from support.control_cluster import ControlBroker, ControlCluster, on_virtual_time, topic


async def registered(cluster: ControlCluster, broker: ControlBroker) -> LocalBrokerData:
    record = await cluster.admin.get(f"/loadbalance/brokers/{broker.broker_id}")
    assert record is not None
    return msgspec.json.decode(record.value, type=LocalBrokerData)


@pytest.mark.parametrize("name", ["NoopLoadManager", "org.apache.pulsar.broker.loadbalance.NoopLoadManager"])
def test_the_configuration_names_it(name: str) -> None:
    assert load_manager_factory(name) is NoopLoadManager


def test_whoever_is_asked_owns_the_bundle_and_nothing_is_ever_moved() -> None:
    async def scenario(cluster: ControlCluster) -> None:
        made = await cluster.create_namespace(2)
        brokers = [await cluster.add(8080 + index, NoopLoadManager) for index in range(2)]
        before = [await registered(cluster, broker) for broker in brokers]
        assert [data.web_service_url for data in before] == [f"http://{broker.broker_id}" for broker in brokers]
        assert {data.load_manager_class_name for data in before} == {
            "org.apache.pulsar.broker.loadbalance.NoopLoadManager"
        }
        assert not brokers[0].plane.load_manager.is_centralized
        names = {bundle: _topic_in(bundle) for bundle in made.bundles}
        for bundle, broker in zip(made.bundles, brokers, strict=True):
            placement = await broker.run(broker.plane.load_manager.select_broker(bundle))
            assert placement is not None
            assert (placement.broker, placement.reason.code) == (broker.broker_id, Code.DISABLED)
            assert (await cluster.follow(topic(names[bundle]), broker)).broker_id == broker.broker_id
        for broker in brokers:
            manager = broker.plane.load_manager
            assert not await broker.run(manager.write_report(force=True))
            for work in (manager.shed, manager.check_splits, manager.write_resource_quotas):
                await broker.run(work())
        assert [await registered(cluster, broker) for broker in brokers] == before
        assert [list(broker.owned) for broker in brokers] == [[bundle] for bundle in made.bundles]
        for folder in ("bundle-data", "broker-time-average", "resource-quota", "settings"):
            assert await cluster.admin.children(f"/loadbalance/{folder}") == []

    on_virtual_time(scenario)


def _topic_in(bundle: Bundle) -> str:
    return next(name for name in map("t{}".format, range(99)) if bundle.contains(topic(name)))
