"""Switching the cluster's own shedding off and putting it back, and reading which cluster it is."""

from typing import Any

import pytest

from pulsar_barycenter.balancer.facts import (
    FactsError,
    Identity,
    balancing_settings,
    clock_difference,
    one_cluster,
    policies_of,
)
from pulsar_barycenter.balancer.metrics import Numbers, rendered
from pulsar_barycenter.balancer.options import Mode
from pulsar_barycenter.balancer.shedding_switch import SHEDDING_KEY, TakenOver, put_back, switch_off
from pulsar_barycenter.operations.executor import NotNowError, RefusedError
from support.virtual_time import on_virtual_time


class Cluster:
    """Two brokers with dynamic configuration: each uses a value one question after it was set, and keeps it when the
    override is removed."""

    def __init__(self, value: str = "true", override: str | None = None, store: str = "zk:1") -> None:
        self.override = override
        self.values = [value, value]
        self.log: list[str] = []
        self.is_away = False
        self.store = store

    async def settings(self, broker: str = "") -> dict[str, str]:
        if self.is_away:
            raise RefusedError("GET: 403 no rights")
        place = int(broker or 0)
        now = self.values[place]
        if self.override is not None:
            self.values[place] = self.override
        return {SHEDDING_KEY: now, "clusterName": "c1"}

    async def overrides(self) -> dict[str, str]:
        return {} if self.override is None else {SHEDDING_KEY: self.override}

    async def set_dynamic(self, key: str, value: str, *, expected: str) -> None:
        self.log.append(f"set {value}")
        self.override = value

    async def delete_override(self, key: str) -> None:
        self.log.append("delete")
        self.override = None

    async def brokers(self) -> list[str]:
        return ["0", "1"]

    async def stores(self) -> dict[str, Any]:
        return {"metadataStoreUrl": self.store}

    async def isolation(self) -> dict[str, Any]:
        return {"p": {"namespaces": []}}

    async def failure_domains(self) -> dict[str, Any]:
        return {"d1": {"brokers": ["0"]}}

    async def anti_affinity_group(self, namespace: str) -> str:
        return "Group" if namespace == "t/n" else ""


def taken_over_and_back(cluster: Any, before: TakenOver | None = None) -> list[TakenOver]:
    remembered: list[TakenOver] = []

    async def remember(found: TakenOver) -> None:
        assert not cluster.log, "it is remembered before anything is changed"
        remembered.append(found)

    async def scene() -> None:
        found = await switch_off(cluster, before, remember, 5)
        assert cluster.values == ["false", "false"]
        await put_back(cluster, found)

    on_virtual_time(lambda _world: scene())
    return remembered


def test_a_value_without_override_is_in_force_again_before_the_override_goes() -> None:
    cluster = Cluster("true", None)
    assert taken_over_and_back(cluster) == [TakenOver(at=5, override=None, value="true")]
    assert cluster.log == ["set false", "set true", "delete"]
    assert (cluster.values, cluster.override) == (["true", "true"], None)


def test_an_override_is_set_again() -> None:
    cluster = Cluster("true", "true")
    taken_over_and_back(cluster)
    assert (cluster.log, cluster.override) == (["set false", "set true"], "true")


def test_shedding_that_was_off_stays_off() -> None:
    cluster = Cluster("false", "false")
    taken_over_and_back(cluster)
    assert (cluster.log, cluster.override) == ([], "false")


def test_what_an_earlier_process_remembered_is_put_back() -> None:
    cluster = Cluster("false", "false")
    assert taken_over_and_back(cluster, TakenOver(at=1, override=None, value="true")) == []
    assert (cluster.values, cluster.override) == (["true", "true"], None)


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
        with pytest.raises(RefusedError, match=r"isolation policy 'p'.*nothing may move"):
            await policies_of(cluster, ["t/n"])
        cluster.isolation = cluster.overrides
        policies = await policies_of(cluster, ["t/n", "t/m"])
        assert (policies.groups, policies.domains) == ({"t/n": "group"}, {"0": "d1"})

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
    assert rendered(Numbers(Mode.OBSERVE, is_lease_held=True)).count("barycenter_balance_may_act 0\n") == 1


def test_a_cluster_that_does_not_take_the_value_in_time_is_an_error() -> None:
    class Stubborn(Cluster):
        async def set_dynamic(self, key: str, value: str, *, expected: str) -> None:
            raise NotNowError("409")

    async def scene() -> None:
        async def remember(_found: TakenOver) -> None:
            pass

        cluster: Any = Stubborn()
        with pytest.raises(TimeoutError):
            await switch_off(cluster, None, remember, 5)

    on_virtual_time(lambda _world: scene())
