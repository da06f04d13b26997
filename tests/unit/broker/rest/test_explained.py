"""The dashboard's explanation of a bundle, from a snapshot alone."""

import pytest
from msgspec.structs import replace

from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.dashboard.bundle_list import listed_bundles
from pulsar_barycenter.dashboard.explained import Explanation, cluster_balance, decisions_upon, explained
from pulsar_barycenter.dashboard.overview import Shares
from pulsar_barycenter.load.managers import ManagerKind
from pulsar_barycenter.load.reports.extensible_reports import BrokerLoadData
from pulsar_barycenter.load.reports.load_report import LocalBrokerData, NamespaceBundleStats, ResourceUsage
from pulsar_barycenter.load.snapshot.document import PoliciesDocument, SnapshotDocument
from pulsar_barycenter.load.snapshot.extensible_document import ExtensibleDocument
from support.load_cases import steady

HEAVY, LIGHT = "t/n/0x00000000_0x80000000", "t/n/0x80000000_0xffffffff"
ONLY_B1 = {
    "p": {
        "namespaces": ["t/n"],
        "primary": ["b1"],
        "secondary": [],
        "auto_failover_policy": {
            "policy_type": "min_available",
            "parameters": {"min_limit": "1", "usage_threshold": "80"},
        },
    }
}

NO_POLICIES = PoliciesDocument()


def report(cpu: float, **bundles: NamespaceBundleStats) -> LocalBrokerData:
    throughput = sum(each.msg_throughput_in for each in bundles.values())
    return LocalBrokerData(
        cpu=ResourceUsage(cpu, 100),
        last_stats=bundles,
        bundles=set(bundles),
        msg_throughput_in=throughput,
        last_update=1,
        num_bundles=len(bundles),
    )


def cluster(policies: PoliciesDocument = NO_POLICIES) -> SnapshotDocument:
    heavy = NamespaceBundleStats(msg_rate_in=30, msg_throughput_in=30e6, topics=3)
    light = NamespaceBundleStats(msg_rate_in=10, msg_throughput_in=10e6, topics=2)
    brokers = {"b1:8080": report(95, **{HEAVY: heavy, LIGHT: light}), "b2:8080": report(5)}
    return SnapshotDocument(taken_at=2, brokers=brokers, policies=policies)


def told(document: SnapshotDocument, **asked: str) -> Explanation:
    config, manager = BrokerConfig(load_balancer_load_shedding_strategy="ThresholdShedder"), ManagerKind.MODULAR
    return explained(decisions_upon(document, config, manager), config, manager, **asked)


def test_a_bundle_has_its_owners_verdict_its_place_and_what_would_become_of_it() -> None:
    found = told(cluster(), bundle=LIGHT, owner="b1:8080", destination="b2:8080")
    assert [state.broker for state in found.states] == ["b1:8080"]
    [verdict] = [line for line in found.lines if line.kind == "verdict"]
    assert verdict.broker == "b1:8080"
    assert found.shedding == ["b1:8080"]
    assert found.placed is not None
    assert found.placed.destination == "b2:8080"
    assert found.move is not None
    assert found.move.objection == ""
    from_, to = found.move.sides
    assert (from_.broker, from_.msg_throughput, from_.bundles) == ("b1:8080", (40e6, 30e6), (2, 1))
    assert (to.broker, to.msg_throughput, to.bundles) == ("b2:8080", (0, 10e6), (0, 1))


def test_a_move_starts_at_the_owner_where_reports_still_list_the_bundle_elsewhere() -> None:
    found = told(cluster(), bundle=LIGHT, owner="b2:8080", destination="b1:8080")
    assert found.move is not None
    to, from_ = found.move.sides
    assert (from_.broker, from_.bundles) == ("b2:8080", (0, 0))
    assert (to.broker, to.msg_throughput, to.bundles) == ("b1:8080", (40e6, 50e6), (2, 3))


def test_a_move_that_policies_forbid_has_an_objection_that_names_the_broker() -> None:
    found = told(cluster(PoliciesDocument(isolation=ONLY_B1)), bundle=LIGHT, destination="b2:8080")
    assert found.move is not None
    assert "b2:8080" in found.move.objection
    allowed = told(cluster(PoliciesDocument(isolation=ONLY_B1)), bundle=LIGHT, destination="b1:8080")
    assert allowed.move is not None
    assert allowed.move.objection == ""


@pytest.mark.parametrize("asked", [{"namespace": "t/n"}, {"broker": "b1:8080"}, {"broker": "b2:8080"}])
def test_what_would_leave_is_told_of_its_namespace_and_of_both_brokers(asked: dict[str, str]) -> None:
    moves = [line for line in told(cluster(), **asked).lines if line.kind == "unload"]
    assert moves
    assert {line.bundle for line in moves} <= {HEAVY, LIGHT}
    assert {(line.source, line.destination) for line in moves} == {("b1:8080", "b2:8080")}
    assert all(line.sentence and line.short for line in moves)


def test_a_bundle_has_one_load_on_all_pages_whatever_its_windows_say() -> None:
    """In + out by the newest report: in the picture of the cluster, in tables, on the page of the bundle, and moved."""
    stats = NamespaceBundleStats(msg_rate_in=30, msg_rate_out=60, msg_throughput_in=3e6, msg_throughput_out=6e6)
    before = NamespaceBundleStats(msg_rate_in=1_000, msg_throughput_in=1e9)
    document = SnapshotDocument(
        taken_at=2,
        brokers={"b1:8080": report(20, **{HEAVY: stats}), "b2:8080": report(5)},
        bundle_data={HEAVY: steady(before)},
    )
    [row, _] = Shares().of(document, ())
    [share] = row.top
    [listed] = listed_bundles(document, "", "", 10).bundles
    found = told(document, bundle=HEAVY, owner="b1:8080", destination="b2:8080")
    assert found.load is not None
    assert found.move is not None
    taken = found.move.sides[1]
    assert {share.msg_rate, listed.msg_rate, found.load.msg_rate, taken.msg_rate[1]} == {90}
    assert {share.msg_throughput, listed.msg_throughput, found.load.msg_throughput, taken.msg_throughput[1]} == {9e6}
    [state] = found.states
    assert state.figures.msg_rate == 1_000  # the short window, which is named beside it


def test_a_move_tells_the_usage_of_both_brokers_before_and_after() -> None:
    found = told(cluster(), bundle=HEAVY, owner="b1:8080", destination="b2:8080")
    assert found.move is not None
    source, taker = found.move.sides
    assert (source.usage[0], taker.usage[0]) == (95, 5)
    assert source.usage[1] < 50  # three quarters of its load go
    assert taker.usage[1] > 30
    assert told(cluster(), bundle=HEAVY, owner="b1:8080", destination="b1:8080").move.sides[0].usage == (95, 95)  # type: ignore[union-attr]


def test_the_balance_of_a_cluster_goes_with_what_its_shedder_makes_of_it() -> None:
    config = BrokerConfig(load_balancer_load_shedding_strategy="ThresholdShedder")
    found = cluster_balance(decisions_upon(cluster(), config, ManagerKind.MODULAR), config)
    assert found.balance.state == "uneven"
    assert found.balance.fullest == "b1:8080"
    assert found.unloads > 0
    assert found.short.startswith("b1:8080: ")


@pytest.mark.parametrize("manager", [ManagerKind.MODULAR, ManagerKind.EXTENSIBLE])
def test_the_bundles_of_brokers_before_and_after_a_move_leave_out_their_own(manager: ManagerKind) -> None:
    own = "pulsar/b1:8080/0x00000000_0xffffffff"
    stats = NamespaceBundleStats(msg_rate_in=1, topics=1)
    document = cluster()
    if manager is ManagerKind.EXTENSIBLE:
        loads = {name: BrokerLoadData(bundle_count=3 if name == "b1:8080" else 1) for name in ("b1:8080", "b2:8080")}
        owners = {HEAVY: "b1:8080", LIGHT: "b1:8080", own: "b1:8080", own.replace("b1", "b2"): "b2:8080"}
        document = SnapshotDocument(brokers={}, extensible=ExtensibleDocument(loads=loads, owners=owners))
    else:
        b1, b2 = document.brokers["b1:8080"], document.brokers["b2:8080"]
        document.brokers["b1:8080"] = replace(b1, last_stats={**b1.last_stats, own: stats}, bundles={*b1.bundles, own})
        its_own = own.replace("b1", "b2")
        document.brokers["b2:8080"] = replace(b2, last_stats={its_own: stats}, bundles={its_own})
    config = BrokerConfig(load_manager_class_name=manager.class_name)
    known = decisions_upon(document, config, manager)
    found = explained(known, config, manager, bundle=LIGHT, owner="b1:8080", destination="b2:8080")
    assert found.move is not None
    assert {share.broker: share.bundles for share in Shares().of(document, ())} == {"b1:8080": 2, "b2:8080": 0}
    assert {side.broker: side.bundles for side in found.move.sides} == {"b1:8080": (2, 1), "b2:8080": (0, 1)}
