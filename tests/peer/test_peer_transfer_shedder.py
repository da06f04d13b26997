"""The extensible load manager's reports and TransferShedder beside Pulsar's.

Pulsar adds loads and ranks equal brokers in the order of a hash map. Where its answer is not ours its class is asked
once more about the same brokers in the order of their names, and has to give exactly our answer then: ours is one of
those that its rule allows.
"""

import math
import random
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from pulsar_barycenter.load.reports.extensible_reports import (
    BrokerLoadData,
    BrokerLoadReportRule,
    BrokerLookupData,
    BundleLoadData,
    TopBundlesLoadData,
    decode_broker_load,
    decode_top_bundles,
    is_broker_load_due,
)
from pulsar_barycenter.load.reports.load_report import (
    AdvertisedListener,
    NamespaceBundleStats,
    SystemResourceUsage,
    encode_without_none,
    stats_rank,
)
from pulsar_barycenter.load.reports.weights import extensible_resource_weights
from pulsar_barycenter.load.shedding.transfer_plan import UNLOAD_REASONS, TransferShedderSettings
from pulsar_barycenter.load.shedding.transfer_shedder import TransferMemory, TransferShedder
from support.load_cases import bundle_name
from support.peer_cases import drawn, stats, usage
from support.pulsar_peer import PulsarPeer
from support.transfer_cases import TransferCase, TransferRound, draw_case, our_configuration, unload_reason

pytestmark = [pytest.mark.peer, pytest.mark.xdist_group("peer"), pytest.mark.timeout(1800)]

Answer = list[dict[str, Any]]


def our_rounds(case: TransferCase) -> tuple[Answer, bool]:
    """Return what is decided round after round, and whether Pulsar would divide by a usage of 0 somewhere."""
    config = our_configuration(case.overrides)
    # its debug mode subtracts what comes back in exchange, which ours leaves to a setting
    settings = replace(TransferShedderSettings.of(config), count_exchanged=config.load_balancer_debug_mode_enabled)
    memory, rounds, by_zero = TransferMemory(), list[dict[str, Any]](), False
    for seen in case.rounds:
        for broker, at_ms in seen.unloaded_at_ms.items():
            memory = memory.after_unload(broker, at_ms)
        plan, memory = TransferShedder(settings).decide(seen.snapshot(), memory)
        decisions = []
        for unload in plan:
            assert unload.reason.cause is not None
            label = UNLOAD_REASONS[unload.reason.cause.code]
            decisions.append([unload.source, unload.bundle, unload.destination, label])
        rounds.append(
            {
                "decisions": decisions,
                "hits": memory.hits,
                "unloaded": memory.unloaded_at_ms,
                "label": "" if decisions else unload_reason(plan),
                "mean": plan.verdicts.statistics.mean,
                "deviation": plan.verdicts.statistics.deviation,
            }
        )
        names = plan.snapshot.brokers.names
        turns = [seen.loads[names[turn.imbalance.greatest]] for turn in plan.verdicts.turns]
        by_zero = by_zero or any(load.weighted_max_ema == 0 for load in turns)
    return rounds, by_zero


def comparable(case: TransferCase, rounds: Answer) -> Answer:
    """Return the rounds without the order of what is decided at once, and without what is remembered of who is gone.

    A deviation that is no number is 0.
    """
    return [
        {
            **one,
            "unloaded": {name: at for name, at in one["unloaded"].items() if name in {*seen.loads, *seen.lookups}},
            "decisions": sorted(one["decisions"], key=str),
            "deviation": 0.0 if math.isnan(float(one["deviation"])) else one["deviation"],
        }
        for seen, one in zip(case.rounds, rounds, strict=True)
    ]


def test_the_transfer_shedder_decides_as_pulsars(peer: PulsarPeer, cases: int, seed: int) -> None:
    """Disagreements: 0, in the order of Pulsar's hash maps or in that of names."""
    questions = drawn(random.Random(f"transfer {seed}"), cases, draw_case)

    def ask(of: Any, *, ordered: bool) -> Any:
        return peer.ask("Transfer", "rounds", of, lambda case: case[1].document(), ordered)

    fired = by_zero = 0
    doubtful: list[tuple[int, TransferCase]] = []
    for (number, case), answer in ask(questions, ordered=False):
        ours, divides_by_zero = our_rounds(case)
        if divides_by_zero:
            by_zero += 1
            continue
        fired += any(one["decisions"] for one in ours)
        if comparable(case, ours) != comparable(case, answer):
            doubtful.append((number, case))
    again = ask(doubtful, ordered=True)
    disagreements = [
        number for (number, case), answer in again if comparable(case, our_rounds(case)[0]) != comparable(case, answer)
    ]
    print(
        f"TransferShedder: {cases} cases, {fired} that shed, {by_zero} with a division by 0, "
        f"{len(doubtful)} depend on the order, {len(disagreements)} differ"
    )
    assert disagreements == []
    assert fired > cases // 4
    assert by_zero < cases // 10


def load_case(rng: random.Random) -> tuple[dict[str, Any], list[Any]]:
    overrides = {
        "loadBalancerHistoryResourcePercentage": rng.choice((0.0, 0.5, 0.9, 0.9, 1.0)),
        "loadBalancerReportUpdateThresholdPercentage": rng.choice((0, 1, 10, 10, 50)),
        "loadBalancerMemoryResourceWeight": rng.choice((0.0, 0.0, 0.5, 1.0)),
        "loadBalancerDirectMemoryResourceWeight": rng.choice((0.0, 1.0)),
        "loadBalancerCPUResourceWeight": rng.choice((1.0, 0.5)),
        "loadBalancerBandwidthInResourceWeight": rng.choice((1.0, 0.3)),
    }
    samples: list[Any] = []
    for _ in range(rng.randint(1, 12)):
        kind = rng.random()
        if kind < 0.1:
            samples.append(None)
        elif samples and samples[-1] is not None and kind < 0.5:
            before = samples[-1]
            total = msgspec.structs.replace(
                before["total"], msg_rate_in=before["total"].msg_rate_in * rng.uniform(0.8, 1.2)
            )
            samples.append({**before, "total": total, "bundleCount": before["bundleCount"] + rng.choice((0, 0, 1))})
        else:
            used = SystemResourceUsage(
                cpu=usage(rng),
                memory=usage(rng),
                direct_memory=usage(rng),
                bandwidth_in=usage(rng),
                bandwidth_out=usage(rng),
            )
            samples.append({"usage": used, "total": stats(rng), "bundleCount": rng.choice((0, 1, 10, 11, 100))})
    return overrides, samples


def test_a_brokers_load_moves_and_is_reported_as_pulsars(peer: PulsarPeer, cases: int, seed: int) -> None:
    """After each measurement all figures are Pulsar's to the last bit, and both find a report due, or not."""

    def document(case: tuple[int, tuple[dict[str, Any], list[Any]]]) -> Any:
        return {"configuration": case[1][0], "samples": case[1][1]}

    questions = drawn(random.Random(f"load {seed}"), cases, load_case)
    reported = 0
    for (number, (overrides, samples)), answer in peer.ask("Transfer", "loads", questions, document):
        config = our_configuration(overrides)
        rule, weights = BrokerLoadReportRule.of(config), extensible_resource_weights(config)
        load = published = BrokerLoadData()
        for sample, theirs in zip(samples, answer, strict=True):
            now_ms = max(theirs["load"]["updatedAt"], theirs["load"]["reportedAt"], 1)
            if sample is None:
                load = load.cleared()
            else:
                load = load.updated(
                    sample["usage"],
                    sample["total"],
                    bundle_count=sample["bundleCount"],
                    weights=weights,
                    history_weight=config.load_balancer_history_resource_percentage,
                    now_ms=theirs["load"]["updatedAt"],
                )
            due = is_broker_load_due(published, load, now_ms if load.reported_at else 2**41, rule)
            assert due is theirs["due"], number
            if due:
                reported += 1
                load = published = msgspec.structs.replace(load, reported_at=theirs["load"]["reportedAt"])
            assert load == msgspec.convert(theirs["load"], BrokerLoadData), number
    assert reported > cases


def top_case(rng: random.Random) -> tuple[dict[str, NamespaceBundleStats], dict[str, Any]]:
    spaces = ("t/a", "t/b", "t/c", "pulsar/system", "pulsar/b:8080", "sla-monitor/b:8080", "t/pulsar")
    small = rng.random() < 0.4
    held = {
        bundle_name(number, rng.choice(spaces)): stats(rng, 0.01 if small else 1.0)
        for number in range(rng.choice((0, 1, 5, 20, 40)))
    }
    return held, {
        "count": rng.choice((1, 2, 3, 10, 10, 100)),
        "withPolicies": rng.sample(("t/a", "t/b", "t/c"), rng.choice((0, 0, 1, 2))),
        "configuration": {
            "loadBalancerSheddingExcludedNamespaces": rng.choice(([], ["t/a"], ["t/b", "t/c"])),
            "loadBalancerSheddingBundlesWithPoliciesEnabled": rng.random() < 0.5,
        },
    }


def test_top_bundles_are_pulsars(peer: PulsarPeer, cases: int, seed: int) -> None:
    """Place by place they rank alike; where no two bundles do, they are the same bundles."""

    def document(case: tuple[int, tuple[dict[str, NamespaceBundleStats], dict[str, Any]]]) -> Any:
        return {"stats": case[1][0], **case[1][1]}

    questions = drawn(random.Random(f"top bundles {seed}"), cases, top_case)
    for (number, (held, asked)), answer in peer.ask("Transfer", "topBundles", questions, document):
        config = our_configuration(asked["configuration"])
        may_move = config.load_balancer_shedding_bundles_with_policies_enabled
        policies = () if may_move else tuple(asked["withPolicies"])
        ours = TopBundlesLoadData.of(
            held,
            asked["count"],
            excluded_namespaces=config.load_balancer_shedding_excluded_namespaces,
            has_policies=lambda namespace, among=policies: namespace in among,  # type: ignore[misc]
        )
        theirs = msgspec.convert(answer, TopBundlesLoadData)
        ranks = [stats_rank(bundle.stats) for bundle in ours.top_bundles_load_data]
        assert ranks == [stats_rank(bundle.stats) for bundle in theirs.top_bundles_load_data], number
        assert all(held[bundle.bundle_name] == bundle.stats for bundle in theirs.top_bundles_load_data), number
        if len({stats_rank(one) for one in held.values()}) == len(held):
            assert ours == theirs, number


Documents = tuple[BrokerLoadData, TopBundlesLoadData, BrokerLookupData]


def document_case(rng: random.Random) -> Documents:
    seen = TransferRound().add("b", rng.random(), *(rng.random() * 1e6 for _ in range(rng.randint(0, 3))))
    load = msgspec.structs.replace(
        seen.loads["b"],
        cpu=usage(rng),
        memory=usage(rng),
        bundle_count=rng.randint(0, 9),
        reported_at=rng.randint(0, 99),
    )
    top = tuple(BundleLoadData(bundle_name(at), stats(rng)) for at in range(rng.randint(0, 3)))
    lookup = BrokerLookupData(
        web_service_url=rng.choice((None, "http://b:8080")),
        pulsar_service_url="pulsar://b:6650",
        advertised_listeners=rng.choice(({}, {"inside": AdvertisedListener(broker_service_url="pulsar://b:6650")})),
        protocols=rng.choice(({}, {"kafka": "b:9092"})),
        persistent_topics_enabled=rng.random() < 0.5,
        non_persistent_topics_enabled=rng.random() < 0.5,
        load_manager_class_name=rng.choice((None, "x.Y")),
        start_timestamp=rng.randint(0, 2**40),
        broker_version=rng.choice((None, "4.2.4")),
        properties=rng.choice(({}, {"lookup.rack": "r1"})),
    )
    return load, TopBundlesLoadData(top), lookup


def test_pulsar_reads_what_is_written_and_writes_it_back(peer: PulsarPeer, cases: int, seed: int) -> None:
    def document(case: tuple[int, Documents]) -> Any:
        load, top, lookup = (msgspec.Raw(encode_without_none(one)) for one in case[1])
        return {"load": load, "top": top, "lookup": lookup}

    questions = drawn(random.Random(f"documents {seed}"), cases, document_case)
    for (number, ours), answer in peer.ask("Transfer", "written", questions, document):
        load, top, lookup = (msgspec.json.encode(one) for one in answer)
        assert (
            decode_broker_load(load),
            decode_top_bundles(top),
            msgspec.json.decode(lookup, type=BrokerLookupData),
        ) == ours, number
