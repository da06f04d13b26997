"""Reading which cluster it is, its settings, policies and clock; and the numbers of a balancer."""

from typing import Any

import pytest

from pulsar_barycenter.balancer.facts import (
    FactsError,
    Identity,
    balancing_settings,
    clock_difference,
    one_cluster,
)
from pulsar_barycenter.balancer.metrics import Numbers, rendered
from pulsar_barycenter.balancer.options import Mode
from pulsar_barycenter.balancer.right_to_act import one_address
from pulsar_barycenter.operations.executor import RefusedError
from pulsar_barycenter.operations.policies_read import PoliciesReader
from support.virtual_time import on_virtual_time


class Cluster:
    """A cluster that tells which one it is, and its policies."""

    def __init__(self, store: str = "zk:1") -> None:
        self.is_away = False
        self.groups = {"t/n": "Group"}
        self.asked: list[str] = []
        self.rules = 0
        self.store = store

    async def settings(self, broker: str = "") -> dict[str, str]:
        if self.is_away:
            raise RefusedError("GET: 403 no rights")
        return {"clusterName": "c1"}

    async def no_isolation(self) -> dict[str, Any]:
        return {}

    async def stores(self) -> dict[str, Any]:
        return {"metadataStoreUrl": self.store}

    async def isolation(self) -> dict[str, Any]:
        return {"p": {"namespaces": []}}

    async def failure_domains(self) -> dict[str, Any]:
        self.rules += 1
        return {"d1": {"brokers": ["0"]}}

    async def anti_affinity_group(self, namespace: str) -> str:
        self.asked.append(namespace)
        return self.groups.get(namespace, "")


def test_addresses_of_two_clusters_are_refused_and_one_that_is_silent_does_not_count() -> None:
    silent = Cluster()
    silent.is_away = True

    async def scene() -> None:
        clusters: Any = {"http://a": Cluster(), "http://b": silent}
        assert await one_cluster(clusters) == Identity(cluster="c1", store="zk:1")
        with pytest.raises(FactsError, match=r"http://a.*zk:1.*http://c.*zk:2"):
            await one_cluster({**clusters, "http://c": Cluster(store="zk:2")})
        with pytest.raises(FactsError, match="403 no rights"):
            await one_cluster({"http://b": silent})  # type: ignore[dict-item]

    on_virtual_time(lambda _world: scene())


def test_policies_that_cannot_be_followed_are_said() -> None:
    async def scene() -> None:
        cluster: Any = Cluster()
        reader = PoliciesReader(cluster)
        with pytest.raises(RefusedError, match="isolation policy 'p'"):
            await reader.read(["t/n"], 0)
        cluster.isolation = cluster.no_isolation
        policies = await reader.read(["t/n", "t/m"], 0)
        assert (policies.groups, policies.domains) == ({"t/n": "group"}, {"0": "d1"})
        with pytest.raises(RefusedError, match="can be read for at most 10,000"):
            await reader.read([str(number) for number in range(10_001)], 0)

    on_virtual_time(lambda _world: scene())


def test_groups_are_read_when_they_are_new_then_once_an_hour_and_before_moves() -> None:
    async def scene() -> None:
        cluster: Any = Cluster()
        cluster.isolation = cluster.no_isolation
        namespaces = [f"t/n{number:03d}" for number in range(120)]
        reader = PoliciesReader(cluster)
        await reader.read(namespaces[:-1], 0)
        assert sorted(cluster.asked) == namespaces[:-1]
        cluster.asked.clear()
        for minute in range(1, 61):
            await reader.read(namespaces, minute * 60_000)
        assert sorted(set(cluster.asked)) == namespaces, "within an hour"
        assert len(cluster.asked) <= 121, "no more than once"
        assert cluster.rules == 13, "at the start, and every five minutes"

        cluster.groups["t/n007"] = "Pair"
        assert await reader.changed(["t/n006", "t/n007"], 61 * 60_000) == ["t/n007"]
        assert await reader.changed(["t/n006", "t/n007"], 61 * 60_000) == []
        assert (await reader.read(["t/n007"], 62 * 60_000)).groups == {"t/n007": "pair"}
        assert (await reader.read([], 63 * 60_000)).groups == {}

    on_virtual_time(lambda _world: scene())


def test_settings_of_a_cluster_that_are_unknown_or_not_allowed_here_are_left_out() -> None:
    told = {
        "loadBalancerSheddingGracePeriodMinutes": "7",
        "loadBalancerBrokerOverloadedThresholdPercentage": "many",
        "loadBalancerLoadSheddingStrategy": "org.example.Own",
        "webServicePort": "8080",
        "barycenterDrainedBrokers": "b:1",
    }
    used = balancing_settings(told)
    assert used == {"loadBalancerSheddingGracePeriodMinutes": "7", "barycenterDrainedBrokers": "b:1"}


@pytest.mark.parametrize(
    ("offset", "said"),
    [
        (None, ""),
        ((-500, 700), ""),
        ((60_000, 61_000), ""),
        ((3_600_000, 3_601_000), "3,600 s ahead of"),
        ((-3_601_000, -3_600_000), "3,600 s behind"),
    ],
)
def test_a_clock_that_is_off_is_said(offset: tuple[int, int] | None, said: str) -> None:
    found = clock_difference("http://b", offset)
    assert said in found
    assert bool(found) is bool(said)


def test_the_numbers_have_prometheus_form() -> None:
    text = rendered(Numbers(Mode.ACT, rounds=3, is_lease_held=True, above_mean={"cluster": 0.25}))
    assert 'barycenter_balance_rounds_total{result="done"} 3\n' in text
    assert "barycenter_balance_may_act 1\n" in text
    assert 'barycenter_balance_usage_above_mean{side="cluster"} 0.25\n' in text
    assert 'barycenter_balance_paused{cause="foreign move"} 0\n' in text
    assert 'barycenter_balance_splits_total{result="failed"} 0\n' in text
    assert "brokers_needed" not in text, "it is not known"
    assert rendered(Numbers(Mode.ACT, needed="x 1\n")).endswith("\nx 1\n")
    assert rendered(Numbers(Mode.OBSERVE, is_lease_held=True)).count("barycenter_balance_may_act 0\n") == 1


@pytest.mark.parametrize(
    ("told", "address"),
    [
        (["pulsar://a:1", None, "pulsar://b:2"], "pulsar://a:1,b:2"),
        (["pulsar+ssl://a:1", "pulsar://b:2"], "pulsar+ssl://a:1"),
        ([f"pulsar://a:{port}" for port in range(20)], "pulsar://" + ",".join(f"a:{port}" for port in range(16))),
        ([None, ""], ""),
    ],
)
def test_the_lease_is_renewed_by_any_broker(told: list[str | None], address: str) -> None:
    assert one_address(told) == address
