"""The brokers' copy of the cluster's policies, and its use by load managers."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from pulsar_barycenter.broker.namespaces.cluster_policies import ClusterPolicyWatch
from pulsar_barycenter.load.reasons import Code
from pulsar_barycenter.load.reports.load_report import NamespaceBundleStats
from pulsar_barycenter.metadata.errors import StoreUnavailableError
from pulsar_barycenter.metadata.memory.memory_store import MemoryBackend
from pulsar_barycenter.metadata.store import Record
from pulsar_barycenter.naming.bundle import Bundle
from pulsar_barycenter.naming.bundles import NamespaceBundles
from pulsar_barycenter.naming.namespace import NamespaceName
from support.balanced_cluster import (
    Balanced,
    balanced,
    own,
    settled,
    shed_scenario,
    simply_balanced,
    simply_settled,
    traffic,
)
from support.control_cluster import NAMESPACE, ControlCluster, on_virtual_time
from support.metadata_backends import eventually
from support.virtual_time import LoopClock

ISOLATION = "/admin/clusters/standalone/namespaceIsolationPolicies"
DOMAINS = "/admin/clusters/standalone/failureDomain"


def policy(*namespaces: str, primary: str, secondary: str = "none", min_limit: int = 1) -> dict[str, Any]:
    return {
        "namespaces": list(namespaces),
        "primary": [primary],
        "secondary": [secondary],
        "auto_failover_policy": {
            "policy_type": "min_available",
            "parameters": {"min_limit": str(min_limit), "usage_threshold": "100"},
        },
    }


async def put(cluster: ControlCluster, path: str, value: Any) -> None:
    await cluster.admin.put(path, msgspec.json.encode(value))


async def put_group(cluster: ControlCluster, namespace: str, group: str | None) -> None:
    boundaries = ["0x00000000", "0xffffffff"]
    record = {"bundles": {"boundaries": boundaries, "numBundles": 1}, "namespaceAntiAffinityGroup": group}
    await put(cluster, f"/admin/local-policies/{namespace}", record)


async def seen(cluster: ControlCluster, *brokers: Balanced) -> None:
    """Wait until the policies that were put are known."""
    await cluster.until(
        lambda: all(each.broker.plane.policies.current.isolation for each in brokers), "policies are known"
    )


async def one_bundle(cluster: ControlCluster, name: str, owner: Balanced, group: str | None) -> Bundle:
    """Make a namespace of one bundle, owned by a broker."""
    namespace = NamespaceName.parse(name)
    await cluster.create_namespace(1, namespace)
    await put_group(cluster, name, group)
    bundle = NamespaceBundles.equal(namespace, 1).bundles[0]
    await own(cluster, owner, bundle)
    return bundle


def refusals(broker: Balanced) -> dict[str, Code]:
    return {record.bundle: record.reason.code for record in broker.told("refuse")}


class StandingClock:
    """Reports one time for everything, like a store that keeps no times."""

    def now_ms(self) -> int:
        return 0


async def test_policies_that_were_deleted_and_written_anew_are_read() -> None:
    """The new ones have the version of the old and, as far as the store shows, their age."""
    store = MemoryBackend().connect(StandingClock())
    watch = ClusterPolicyWatch(store, "standalone")
    await watch.start()
    first, second = (msgspec.json.encode({name: policy(str(NAMESPACE), primary="b")}) for name in ("one", "two"))
    await store.put(ISOLATION, first)
    await eventually(lambda: watch.current.isolation)
    await asyncio.gather(store.delete(ISOLATION), store.put(ISOLATION, second))
    await eventually(lambda: "two" in str(watch.current.isolation))
    await watch.close()
    await store.close()


# ---- deciding ----


def test_a_bundle_that_no_other_broker_may_serve_is_not_shed() -> None:
    async def scenario(cluster: ControlCluster, brokers: list[Balanced], bundles: list[Bundle]) -> None:
        b0 = brokers[0]
        await put(cluster, ISOLATION, {"mine": policy(str(NAMESPACE), primary="127.*:8080")})
        await seen(cluster, b0)
        await b0.do(lambda manager: manager.shed())
        assert not b0.peers.unloads
        assert set(refusals(b0).values()) == {Code.POLICIES_FORBID}
        sentence = b0.told("refuse")[0].sentence
        assert "isolation policy mine" in sentence
        assert "settings: namespaceIsolationPolicies" in sentence
        assert "smoothed usage" in sentence

    shed_scenario(scenario)


def test_what_is_shed_goes_to_brokers_of_the_policy() -> None:
    """b1 carries less than b2, but is neither primary nor secondary."""

    async def scenario(cluster: ControlCluster, brokers: list[Balanced], bundles: list[Bundle]) -> None:
        b0, _, b2 = brokers
        await put(
            cluster,
            ISOLATION,
            {"mine": policy(str(NAMESPACE), primary="127.*:8080", secondary="127.*:8082", min_limit=2)},
        )
        await seen(cluster, b0)
        await b0.do(lambda manager: manager.shed())
        assert [destination for _, _, destination in b0.peers.unloads] == [b2.id] * 4

    shed_scenario(scenario)


@pytest.mark.parametrize("others", [True, False])
def test_a_bundle_is_not_shed_where_every_broker_has_a_namespace_of_its_group(others: bool) -> None:
    """With a broker that has none of the group it leaves for that one, though another carries less."""

    async def scenario(cluster: ControlCluster, brokers: list[Balanced], bundles: list[Bundle]) -> None:
        b0, b1, b2 = brokers
        await put_group(cluster, str(NAMESPACE), "Group")
        held = [await one_bundle(cluster, "public/b1", b1, "group")]
        if others:
            held.append(await one_bundle(cluster, "public/b2", b2, "GROUP"))
        for each, broker in zip(held, (b1, b2), strict=False):
            broker.stats = {str(each): NamespaceBundleStats()}
            await broker.report(20 if broker is b2 else 10)
        await settled(brokers)
        await b0.do(lambda manager: manager.shed())
        if others:
            assert not b0.peers.unloads
            assert set(refusals(b0).values()) == {Code.ANTI_AFFINITY_FORBIDS}
            sentence = b0.told("refuse")[0].sentence
            assert "most namespaces of the group on a broker 1 = fewest 1" in sentence
            assert "settings: namespaceAntiAffinityGroup" in sentence
        else:
            # once it has one bundle, b2 has the namespace as b0 and b1 do, and the others stay
            assert [destination for _, _, destination in b0.peers.unloads] == [b2.id]

    shed_scenario(scenario)


@pytest.mark.parametrize(("primary", "unload"), [("127.*:8081", False), ("127.*", True)])
def test_the_children_of_a_split_stay_where_no_other_broker_may_serve_them(primary: str, unload: bool) -> None:
    async def scenario(cluster: ControlCluster) -> None:
        made = list((await cluster.create_namespace(2)).bundles)
        b0, b1 = brokers = await balanced(cluster, 2)
        await put(cluster, ISOLATION, {"mine": policy(str(NAMESPACE), primary=primary)})
        await seen(cluster, b0)
        await own(cluster, b1, *made)
        b1.carries(traffic(0, topics=1001))
        await b1.report()
        await settled(brokers)
        await b0.do(lambda manager: manager.check_splits())
        assert b0.peers.splits == [(b1.id, str(made[0]), "range_equally_divide", unload)]
        refused = [record.reason for record in b0.told("refuse")]
        assert [reason.code for reason in refused] == ([] if unload else [Code.POLICIES_FORBID])

    on_virtual_time(scenario)


def test_a_choice_of_a_moment_ago_does_not_outlive_a_policy_that_forbids_it() -> None:
    """Otherwise what is unloaded because a policy was set would come back to where it was."""

    async def scenario(cluster: ControlCluster) -> None:
        bundle = (await cluster.create_namespace(1)).bundles[0]
        b0, b1 = await balanced(cluster, 2)
        await settled([b0, b1])
        first = await b0.do(lambda manager: manager.select_broker(bundle))
        other = b1 if first.broker == b0.id else b0
        await put(cluster, ISOLATION, {"mine": policy(str(NAMESPACE), primary=rf"\Q{other.id}\E")})
        second = await b0.do(lambda manager: manager.select_broker(bundle))
        assert second.broker == other.id
        again = await b0.do(lambda manager: manager.select_broker(bundle))
        assert (again.broker, again.reason.code) == (other.id, Code.PREALLOCATED)

    on_virtual_time(scenario)


def test_the_simple_load_manager_heeds_a_policy_that_is_newer_than_its_choice() -> None:
    """At once, without a notification: the bundle in transition goes elsewhere, and stays in transition there."""

    async def scenario(cluster: ControlCluster) -> None:
        bundle = (await cluster.create_namespace(1)).bundles[0]
        brokers = await simply_balanced(cluster, 2)
        await simply_settled(brokers)
        leader, ids = brokers[0], [each.id for each in brokers]
        await leader.broker.plane.policies.close()
        first = await leader.do(lambda manager: manager.select_broker(bundle))
        other = next(each for each in ids if each != first.broker)
        await put(cluster, ISOLATION, {"mine": policy(str(NAMESPACE), primary=rf"\Q{other}\E")})
        second = await leader.do(lambda manager: manager.select_broker(bundle))
        assert second.broker == other
        again = await leader.do(lambda manager: manager.select_broker(bundle))
        assert (again.broker, again.reason.code) == (other, Code.PREALLOCATED)

    on_virtual_time(scenario)


def test_a_policy_counts_at_once_although_nobody_told_of_it() -> None:
    async def scenario(cluster: ControlCluster) -> None:
        bundle = (await cluster.create_namespace(1)).bundles[0]
        b0, b1 = await balanced(cluster, 2)
        await settled([b0, b1])
        await b0.broker.plane.policies.close()
        await put(cluster, ISOLATION, {"mine": policy(str(NAMESPACE), primary="127.*:8081")})
        assert (await b0.do(lambda manager: manager.select_broker(bundle))).broker == b1.id
        await put(cluster, ISOLATION, {"mine": policy(str(NAMESPACE), primary="127.*:8080")})
        assert (await b0.do(lambda manager: manager.select_broker(bundle))).broker == b0.id

    on_virtual_time(scenario)


# ---- knowing ----


class FailingStore:
    """A store whose reads of some paths fail while `broken` is set."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.broken: Callable[[str], bool] = lambda path: False
        self.before_get: Callable[[str], Awaitable[None]] | None = None
        self.reads: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def get(self, path: str) -> Record | None:
        self.reads.append(path)
        if self.broken(path):
            raise StoreUnavailableError(path, "no answer")
        found: Record | None = await self._store.get(path)
        if self.before_get is not None:
            await self.before_get(path)
        return found


def watching(scenario: Callable[[ControlCluster, FailingStore, ClusterPolicyWatch], Awaitable[None]]) -> None:
    async def run(cluster: ControlCluster) -> None:
        store = FailingStore(cluster.backend.connect(LoopClock(), 10_000))
        watch = ClusterPolicyWatch(store, "standalone")
        await scenario(cluster, store, watch)
        await watch.close()

    on_virtual_time(run)


def test_policies_and_domains_are_known_after_each_change() -> None:
    async def scenario(cluster: ControlCluster, store: FailingStore, watch: ClusterPolicyWatch) -> None:
        await watch.start()
        assert not watch.current.isolation
        await put(cluster, ISOLATION, {"p": policy("t/a", primary="b1")})
        await put(cluster, f"{DOMAINS}/d1", {"brokers": ["b1:80"]})
        await asyncio.sleep(1)
        found = watch.current.isolation.of_namespace("t/a")
        assert found is not None
        assert found.is_primary("b1:80")
        assert watch.current.domains == {"b1:80": "d1"}
        await cluster.admin.delete(ISOLATION)
        await cluster.admin.delete(f"{DOMAINS}/d1")
        await asyncio.sleep(1)
        assert not watch.current.isolation
        assert not watch.current.domains

    watching(scenario)


def test_policies_that_cannot_be_read_count_as_none_or_as_they_were_and_are_logged() -> None:
    async def scenario(cluster: ControlCluster, store: FailingStore, watch: ClusterPolicyWatch) -> None:
        await put(cluster, ISOLATION, {"p": policy("t/a", primary="b1")})
        store.broken = ISOLATION.__eq__
        with capture_logs() as logs:
            await watch.start()
            await watch.refresh("t/a")
        assert not watch.current.isolation
        assert {entry["event"] for entry in logs} == {"cluster_policies_not_read"}
        store.broken = lambda path: False
        await asyncio.sleep(31)
        assert watch.current.isolation
        store.broken = ISOLATION.__eq__
        await put(cluster, ISOLATION, {})
        await watch.refresh("t/a")
        assert watch.current.isolation

    watching(scenario)


def test_a_record_that_makes_no_sense_counts_as_none_and_one_policy_of_it_does_not_harm_others() -> None:
    async def scenario(cluster: ControlCluster, store: FailingStore, watch: ClusterPolicyWatch) -> None:
        await put(cluster, ISOLATION, {"bad": {**policy("t/a", primary="b(")}, "good": policy("t/a", primary="b1")})
        await cluster.admin.put(f"{DOMAINS}/d1", b"[]")
        with capture_logs() as logs:
            await watch.start()
            await asyncio.sleep(100)
        assert [found.name for found in watch.current.isolation.policies] == ["good"]
        told = [entry for entry in logs if entry["log_level"] == "warning"]
        assert [entry["event"] for entry in told] == ["isolation_policy_ignored", "failure_domain_ignored"]
        assert "'bad': primary: 'b(' is not a valid regular expression" in told[0]["reason"]
        with capture_logs() as logs:
            await cluster.admin.put(ISOLATION, b"nonsense")
            await asyncio.sleep(1)
        assert not watch.current.isolation
        assert [entry["event"] for entry in logs] == ["isolation_policies_ignored"]

    watching(scenario)


def test_without_groups_each_namespace_is_read_once_and_no_other() -> None:
    async def scenario(cluster: ControlCluster, store: FailingStore, watch: ClusterPolicyWatch) -> None:
        await put_group(cluster, "t/a", None)
        for _ in range(5):
            await watch.learn_groups("t/a", lambda: ["t/b", "t/c"])
            await watch.learn_groups("t/none", lambda: ["t/b", "t/c"])
        assert store.reads == ["/admin/local-policies/t/a", "/admin/local-policies/t/none"]
        assert not watch.current.groups

    watching(scenario)


def test_a_namespace_in_a_group_learns_the_groups_of_the_others_and_each_change_of_them() -> None:
    async def scenario(cluster: ControlCluster, store: FailingStore, watch: ClusterPolicyWatch) -> None:
        for name, group in (("t/a", "G"), ("t/b", "g"), ("t/c", "h"), ("t/d", " ")):
            await put_group(cluster, name, group)
        everyone = ["t/a", "t/b", "t/c", "t/d", "t/none"]
        await watch.learn_groups("t/a", lambda: everyone)
        assert watch.current.members_of("t/a") == ("t/a", "t/b")
        assert watch.current.members_of("t/d") is None
        await put_group(cluster, "t/b", None)
        await put_group(cluster, "t/none", "g")
        await watch.learn_groups("t/a", lambda: everyone)
        assert watch.current.members_of("t/a") == ("t/a", "t/none")
        store.reads.clear()
        await watch.learn_groups("t/a", lambda: everyone)
        assert store.reads == []
        await asyncio.sleep(301)
        await watch.learn_groups("t/a", lambda: everyone)
        assert len(store.reads) == len(everyone)

    watching(scenario)


def test_a_group_that_changes_while_it_is_read_is_read_again() -> None:
    async def scenario(cluster: ControlCluster, store: FailingStore, watch: ClusterPolicyWatch) -> None:
        await put_group(cluster, "t/a", "old")

        async def change(path: str) -> None:
            store.before_get = None
            await put_group(cluster, "t/a", "new")
            await asyncio.sleep(1)

        store.before_get = change
        await watch.learn_groups("t/a", lambda: ())
        assert watch.current.groups == {"t/a": "new"}

    watching(scenario)


def test_groups_that_are_forgotten_while_others_are_read_are_read_again() -> None:
    """The store came back, and changes in between are unknown."""

    async def scenario(cluster: ControlCluster, store: FailingStore, watch: ClusterPolicyWatch) -> None:
        for name in ("t/a", "t/b", "t/c"):
            await put_group(cluster, name, "g")
        await watch.learn_groups("t/a", lambda: ["t/b"])

        async def come_back(path: str) -> None:
            store.before_get = None
            watch._on_change(None)

        store.before_get = come_back
        await watch.learn_groups("t/a", lambda: ["t/b", "t/c"])
        assert watch.current.members_of("t/a") == ("t/a", "t/b", "t/c")

    watching(scenario)


def test_a_group_that_cannot_be_read_counts_as_none_until_it_can() -> None:
    async def scenario(cluster: ControlCluster, store: FailingStore, watch: ClusterPolicyWatch) -> None:
        await put_group(cluster, "t/a", "g")
        store.broken = lambda path: True
        with capture_logs() as logs:
            await watch.learn_groups("t/a", lambda: ())
        assert [entry["event"] for entry in logs] == ["anti_affinity_group_not_read"]
        assert not watch.current.groups
        store.broken = lambda path: False
        await watch.learn_groups("t/a", lambda: ())
        assert watch.current.groups == {"t/a": "g"}

    watching(scenario)
