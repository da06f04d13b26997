"""A round on a folded view: which bundles move, and that only those with room do."""

import msgspec
import pytest

from pulsar_barycenter.balancer.judging.caps import Room
from pulsar_barycenter.balancer.judging.deciding import Decider, checked_changes, checked_strategy, manager_of
from pulsar_barycenter.balancer.judging.load_view import Facts, LoadView, document_of
from pulsar_barycenter.balancer.judging.snapshots import MovingAverages, document_for
from pulsar_barycenter.balancer.options import MINUTE_MS, Caps
from pulsar_barycenter.load.managers import ManagerKind
from pulsar_barycenter.load.policies import (
    DRAINED_KEY,
    AutoFailoverData,
    ClusterPolicies,
    IsolationPolicies,
    NamespaceIsolationData,
    stored_form,
)
from pulsar_barycenter.load.reports.load_report import LocalBrokerData, NamespaceBundleStats, ResourceUsage
from pulsar_barycenter.load.strategy import MemoryDocument
from pulsar_barycenter.snapshots.decided_by import WrongWordError, configuration_of

A, B = "a:1", "b:1"
BUNDLES = [f"t/n/0x{number:08x}_0x{number + 1:08x}" for number in range(6)]
SYSTEM = "pulsar/a:1/0x00000000_0xffffffff"
SETTINGS = ("minUnloadMessage=1", "minUnloadMessageThroughput=1")
CONFIG = configuration_of({}, changes=SETTINGS, strategy="UniformLoadShedder")
NOW_MS = 10_000_000
HITS = "loadBalancerSheddingConditionHitCountThreshold=2"
ROOMY = Caps(per_minute=60)


def report(broker: str, *bundles: str, at_ms: int = NOW_MS, sequence: int = 1) -> LocalBrokerData:
    stats = NamespaceBundleStats(msg_rate_in=1_000.0, msg_throughput_in=10_000.0, topics=2, producer_count=3)
    return LocalBrokerData(
        broker_id=broker,
        cpu=ResourceUsage(10.0 + 30.0 * len(bundles), 400.0),
        msg_rate_in=1_000.0 * len(bundles),
        msg_throughput_in=10_000.0 * len(bundles),
        last_stats=dict.fromkeys(bundles, stats),
        bundles=bundles,
        last_update=at_ms,
        sequence=sequence,
        incarnation="i",
    )


def view(*reports: LocalBrokerData) -> LoadView:
    found = LoadView()
    for one in reports:
        found.append(one)
    return found


def decided(found: LoadView, caps: Caps = ROOMY, **facts: object) -> tuple[list[str], dict[str, str]]:
    known = Facts(brokers=(A, B), taken_at_ms=NOW_MS, **facts)  # type: ignore[arg-type]
    room = Room(caps, (), now_ms=NOW_MS, round_ms=MINUTE_MS)
    result = Decider(CONFIG, MemoryDocument()).decide(document_of(found.reports, found.bundles, known).snapshot(), room)
    assert all(one.move.destination == B for one in result.moves)
    assert all((one.throughput, one.sessions) == (10_000.0, 3) for one in result.moves)
    return [one.move.bundle for one in result.moves], result.stays


def test_bundles_move_as_far_as_there_is_room() -> None:
    found = view(report(A, *BUNDLES), report(B))
    moves, stays = decided(found)
    assert len(moves) > 1
    first, refused = decided(found, Caps(per_minute=1))
    assert first == moves[:1]
    assert set(refused) >= set(moves[1:]) - set(first)
    assert stays == {}


def test_bundles_that_moved_lately_and_those_of_a_broker_itself_stay() -> None:
    found = view(report(A, *BUNDLES, SYSTEM), report(B))
    lately = dict.fromkeys(BUNDLES[:5], NOW_MS)
    assert decided(found, recently_moved=lately)[0] == BUNDLES[5:]


def test_a_drained_broker_gets_nothing() -> None:
    config = configuration_of({DRAINED_KEY: B}, changes=SETTINGS, strategy="UniformLoadShedder")
    found = view(report(A, *BUNDLES), report(B))
    snapshot = document_of(found.reports, found.bundles, Facts(brokers=(A, B), taken_at_ms=NOW_MS)).snapshot()
    room = Room(ROOMY, (), now_ms=NOW_MS, round_ms=MINUTE_MS)
    assert Decider(config, MemoryDocument()).decide(snapshot, room).moves == ()


def test_an_isolation_policy_keeps_bundles_where_they_may_be() -> None:
    data = NamespaceIsolationData(
        namespaces=("t/n",),
        primary=("a",),
        secondary=(),
        auto_failover_policy=AutoFailoverData("min_available", {"min_limit": "1", "usage_threshold": "100"}),
    )
    isolation, errors = IsolationPolicies.decode({"p": stored_form(data)})
    assert not errors
    found = view(report(A, *BUNDLES), report(B))
    moves, stays = decided(found, policies=ClusterPolicies(isolation))
    assert moves == []
    assert stays


def test_a_view_knows_owners_ages_and_forgets_brokers_that_are_gone() -> None:
    found = view(report(A, *BUNDLES[:2]), report(B, BUNDLES[1], BUNDLES[2], at_ms=NOW_MS - 1))
    assert found.owners() == {BUNDLES[0]: A, BUNDLES[2]: B}
    assert found.current((A, B, "c:1"), now_ms=NOW_MS + 10, max_age_ms=10) == [A]
    found.retain((B,), NOW_MS)
    assert found.owners() == {BUNDLES[1]: B, BUNDLES[2]: B}


def test_the_windows_are_the_means_of_the_reports() -> None:
    found = view(report(A, *BUNDLES))
    found.append(report(A, *BUNDLES))
    assert found.bundles[BUNDLES[0]].short_term_data.num_samples == 1, "a repeated report counts once"
    found.append(report(A, *BUNDLES, at_ms=NOW_MS + 1, sequence=2))
    assert found.bundles[BUNDLES[0]].short_term_data.num_samples == 2


def transferred(*samples: tuple[LocalBrokerData, ...], settings: tuple[str, ...] = ()) -> list[list[str]]:
    """Return the bundles that TransferShedder moves in each round, a round for each sample of reports."""
    config = configuration_of({}, changes=(HITS, *settings), strategy="TransferShedder")
    decider = Decider(config, MemoryDocument(), ManagerKind.EXTENSIBLE)
    averages, found = MovingAverages(), []
    for reports in samples:
        now_ms = max(one.last_update for one in reports)
        folded = view(*reports)
        for broker, one in folded.reports.items():
            averages.add(broker, one, config)
        facts = Facts(brokers=(A, B), taken_at_ms=now_ms)
        modular = document_of(folded.reports, folded.bundles, facts).snapshot()
        document = document_for(
            ManagerKind.EXTENSIBLE, folded.reports, folded.bundles, folded.owners(), averages, facts
        )
        result = decider.decide(document.snapshot(), Room(ROOMY, (), now_ms=now_ms, round_ms=MINUTE_MS))
        assert result.balance == decider.balance(modular), "both forms measure the same balance"
        assert all((one.move.source, one.move.destination) == (A, B) for one in result.moves)
        found.append([one.move.bundle for one in result.moves])
    return found


def uneven(minute: int) -> tuple[LocalBrokerData, ...]:
    at_ms = NOW_MS + minute * MINUTE_MS
    reports = (report(A, *BUNDLES, at_ms=at_ms, sequence=minute + 1), report(B, at_ms=at_ms, sequence=minute + 1))
    modular = ManagerKind.MODULAR.class_name
    return tuple(msgspec.structs.replace(one, load_manager_class_name=modular) for one in reports)


def test_transfer_shedder_decides_for_brokers_of_any_load_manager_once_it_lasted() -> None:
    rounds = transferred(uneven(0), uneven(1), uneven(2))
    assert rounds[:2] == [[], []]
    assert 0 < len(rounds[2]) < len(BUNDLES)


def test_the_averages_of_brokers_begin_anew_when_their_bundles_change() -> None:
    averages = MovingAverages()
    for minute, bundles in enumerate((BUNDLES, BUNDLES, BUNDLES[:1])):
        averages.add(A, report(A, *bundles, at_ms=NOW_MS + minute, sequence=minute + 1), CONFIG)
        averages.add(A, report(A, at_ms=NOW_MS + minute), CONFIG)  # not newer: it does not count
    document = averages.document({A: report(A, *BUNDLES[:1])}, {}, Facts(brokers=(A,), taken_at_ms=NOW_MS + 9))
    assert document.extensible is not None
    assert document.extensible.loads[A].msg_throughput_ema == 10_000.0


@pytest.mark.parametrize("name", ["SimpleLoadManagerImpl", "LeastResourceUsageWithWeight", "LeastLoad", ""])
def test_a_strategy_that_cannot_decide_here_is_refused_with_those_that_can(name: str) -> None:
    with pytest.raises(WrongWordError, match="LeastDisturbance"):
        checked_strategy(name)


@pytest.mark.parametrize(
    ("name", "manager"),
    [
        ("LeastDisturbance", ManagerKind.MODULAR),
        ("TransferShedder", ManagerKind.EXTENSIBLE),
        ("org.apache.pulsar.broker.loadbalance.extensions.scheduler.TransferShedder", ManagerKind.EXTENSIBLE),
        ("org.apache.pulsar.broker.loadbalance.impl.AvgShedder", ManagerKind.MODULAR),
    ],
)
def test_a_strategy_decides_on_the_load_of_the_manager_that_has_it(name: str, manager: ManagerKind) -> None:
    assert (checked_strategy(name), manager_of(name)) == (name, manager)
    checked_changes(name, SETTINGS)
    with pytest.raises(WrongWordError, match="every move of balance has a destination"):
        checked_changes(name, ("loadBalancerTransferEnabled=false",))
