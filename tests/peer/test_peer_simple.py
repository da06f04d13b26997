"""The simple load manager beside Pulsar's: reports, estimates, quotas, placements, shedding, splitting.

Pulsar's `SimpleLoadManagerImpl` runs with mocks for the store, the policies, the admin client and the host. Not driven:
its timers and notifications (`updateRanking` is called as its parts), the JVM's own heap and direct memory (they are
asked for and judged by), isolation policies. Figures are whole numbers and quotas powers of two, because Pulsar adds up
in the order of a hash map.
"""

import random
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
import pytest

from barycenter.load.filters.outcome import PlacementRequest
from barycenter.load.reports.load_report import (
    NamespaceBundleStats,
    ResourceQuota,
    SystemResourceUsage,
    encode_without_none,
)
from barycenter.load.reports.simple_load_report import (
    LoadReport,
    complete,
    decode_load_report,
    gains_and_losses,
    is_above_load_level,
    is_below_load_level,
    with_quotas,
)
from barycenter.load.reports.simple_report_rule import SimpleReportRule, judge_report
from barycenter.load.simple.placement import SimpleMemory, availability, rank, select_broker
from barycenter.load.simple.quotas import (
    Quotas,
    QuotaTable,
    average_to_write,
    figures_of,
    quotas_to_write,
    update_quotas,
)
from barycenter.load.simple.ranking import is_less_loaded, rank_brokers
from barycenter.load.simple.settings import SimpleSettings, SimpleStrategy
from barycenter.load.simple.shedding import ResourceType, SimpleShedder, bottlenecks
from barycenter.load.simple.splitting import SimpleSplitter
from barycenter.load.snapshot.simple_snapshot import build_simple_snapshot
from barycenter.load.splitting.split_plan import BundleLimits
from barycenter.load.splitting.splitter import no_boundaries
from support import simple_cases
from support.load_cases import bundle_name
from support.peer_cases import configuration, drawn
from support.pulsar_peer import PulsarPeer, plain

pytestmark = [pytest.mark.peer, pytest.mark.xdist_group("peer"), pytest.mark.timeout(3600)]

OWN = {"advertisedListeners", "incarnation", "sequence"}
DRAWS = 200
STEPS: Mapping[str, Any] = {
    "CPU": lambda stats: (stats.msg_rate_in + stats.msg_rate_out) / 100,
    "Memory": lambda stats: (stats.topics + stats.consumer_count + stats.producer_count) // 500,
    "BandwidthIn": lambda stats: stats.msg_throughput_in / 100_000,
    "BandwidthOut": lambda stats: stats.msg_throughput_out / 100_000,
}
"""What bundles are sorted by; rates and throughputs are drawn as whole steps, on which all versions agree."""


def in_steps(stats: NamespaceBundleStats) -> NamespaceBundleStats:
    """Return figures that are whole multiples of what Pulsar tells apart (4.2 rounds, the newest truncates)."""
    return msgspec.structs.replace(
        stats,
        msg_rate_in=stats.msg_rate_in // 100 * 100,
        msg_rate_out=stats.msg_rate_out // 100 * 100,
        msg_throughput_in=stats.msg_throughput_in // 100_000 * 100_000,
        msg_throughput_out=stats.msg_throughput_out // 100_000 * 100_000,
    )


def stepped(report: LoadReport) -> LoadReport:
    stats = {name: in_steps(each) for name, each in report.bundle_stats.items()}
    return complete(msgspec.structs.replace(report, bundle_stats=stats))


def documents(reports: Mapping[str, LoadReport]) -> dict[str, Any]:
    return {name: simple_cases.document(report) for name, report in reports.items()}


def overrides(settings: SimpleSettings) -> dict[str, Any]:
    return {
        "loadBalancerPlacementStrategy": settings.strategy.value,
        "loadBalancerBrokerOverloadedThresholdPercentage": settings.overload,
        "loadBalancerBrokerUnderloadedThresholdPercentage": settings.underload,
        "loadBalancerBrokerComfortLoadLevelPercentage": settings.comfort,
    }


def bottleneck(report: LoadReport) -> str:
    (kind,) = bottlenecks(build_simple_snapshot({"b": report}).brokers.percent)
    return tuple(ResourceType)[kind].value


# ---- reports ----


def test_reports_say_the_same_and_are_judged_alike(complete_peer: PulsarPeer, cases: int, seed: int) -> None:
    def draw(rng: random.Random) -> tuple[LoadReport, int]:
        report = next(iter(simple_cases.cluster(rng, most_brokers=1).values()))
        full = msgspec.structs.replace(
            report,
            web_service_url="http://b:8080",
            allocated_cpu=rng.random(),
            pre_allocated_bandwidth_out=rng.random(),
            over_loaded=rng.random() < 0.5,
            bundle_gains=("t/n/a",),
            start_timestamp=rng.getrandbits(40),
        )
        return stepped(full), rng.choice((85, 50, 65, 90))

    disagreements = []
    for (number, (report, level)), told in complete_peer.ask(
        "Simple",
        "reports",
        drawn(random.Random(f"simple reports {seed}"), cases, draw),
        lambda case: {"report": msgspec.json.decode(encode_without_none(case[1][0])), "level": case[1][1]},
    ):
        ours = {key: each for key, each in msgspec.json.decode(encode_without_none(report)).items() if key not in OWN}
        usage = report.system_resource_usage
        same = (
            told["tree"] == ours
            and decode_load_report(msgspec.json.encode(told["tree"])) == report
            and told["bottleneck"] == bottleneck(report)
            and told["above"] == is_above_load_level(usage, level)
            and told["below"] == is_below_load_level(usage, level)
        )
        for kind, names in told["sorted"].items():
            steps = [STEPS[kind](report.bundle_stats[name]) for name in names]
            same &= steps == sorted(steps, reverse=True)
        if not same:
            disagreements.append(number)
    print(f"{cases} reports, {len(disagreements)} differ")
    assert disagreements == []


def test_reports_are_written_at_the_same_moments_and_say_the_same(
    complete_peer: PulsarPeer, cases: int, seed: int
) -> None:
    """Ages keep a minute from where they would matter; the memory figures are those that the JVM has."""

    def draw(rng: random.Random) -> dict[str, Any]:
        bundles = simple_cases.bundle_names(rng, rng.choice((0, 1, 3)))
        before = {name: simple_cases.stats(rng) for name in bundles}
        now = dict(before)
        if now and rng.random() < 0.3:
            del now[rng.choice(bundles)]
        if rng.random() < 0.3:
            now[bundle_name(90)] = simple_cases.stats(rng)
        usage = simple_cases.system_usage(rng)
        return {
            "configuration": {"loadBalancerReportUpdateMinIntervalMillis": 120_000},
            "default": simple_cases.quota(rng),
            "stored": {name: simple_cases.quota(rng) for name in now if rng.random() < 0.5},
            "cpuFactor": rng.choice((0.025, 0.015625)),
            "last": LoadReport(bundle_stats=before, system_resource_usage=simple_cases.system_usage(rng)),
            "stats": now,
            "usage": usage,
            "age": rng.choice((10_000, 60_000, 200_000, 400_000, 839_000, 1_000_000)),
            "comparedAge": rng.choice((10_000, 200_000)),
        }

    rule = SimpleReportRule.of(configuration({"loadBalancerReportUpdateMinIntervalMillis": 120_000}))
    written, disagreements = 0, []
    for (number, case), told in complete_peer.ask(
        "Simple", "write", drawn(random.Random(f"simple write {seed}"), cases, draw), lambda case: plain(case[1])
    ):
        usage = msgspec.convert(told["usage"], SystemResourceUsage)
        last, now_ms = case["last"], 10**9
        last = msgspec.structs.replace(last, timestamp=now_ms - case["age"])
        verdict = judge_report(last, len(case["stats"]), usage, now_ms, now_ms - case["comparedAge"], rule)
        same = verdict.due == (told.get("written") is not None)
        if told.get("written") is not None:
            written += 1
            quotas = Quotas(default=case["default"], cpu_factor=case["cpuFactor"]).learning(case["stored"])
            gains, losses = gains_and_losses(last.bundle_stats, case["stats"])
            ours = complete(
                LoadReport(
                    bundle_stats=case["stats"],
                    system_resource_usage=msgspec.convert(told["written"]["systemResourceUsage"], SystemResourceUsage),
                    over_loaded=is_above_load_level(usage, 85),
                    under_loaded=is_below_load_level(usage, 50),
                )
            )
            ours = with_quotas(ours, quotas.total(case["stats"]), ResourceQuota(), case["cpuFactor"])
            theirs = decode_load_report(msgspec.json.encode(told["written"]))
            same &= set(theirs.bundle_gains) == set(gains)
            same &= set(theirs.bundle_losses) == set(losses)
            same &= ours == msgspec.structs.replace(
                theirs,
                name=None,
                broker_version_string=None,
                load_manager_class_name=None,
                timestamp=0,
                last_update=0,
                start_timestamp=0,
                bundle_gains=(),
                bundle_losses=(),
            )
        if not same:
            disagreements.append(number)
    print(f"{cases} cases, {written} written, {len(disagreements)} differ")
    assert disagreements == []
    assert cases // 5 < written < cases


# ---- estimates ----


def test_estimates_room_and_order_are_the_same(complete_peer: PulsarPeer, cases: int, seed: int) -> None:
    def draw(rng: random.Random) -> dict[str, Any]:
        return {
            "cpuFactor": rng.choice((0.025, 0.05, 0.1, rng.uniform(0.01, 0.1))),
            "default": rng.choice((simple_cases.quota(rng), ResourceQuota(), ResourceQuota(msg_rate_in=1, memory=1))),
            "brokers": [
                {
                    "usage": simple_cases.system_usage(rng),
                    "allocated": rng.choice((ResourceQuota(), simple_cases.quota(rng))),
                    "preallocated": rng.choice((ResourceQuota(), simple_cases.quota(rng))),
                }
                for _ in range(rng.randint(1, 6))
            ],
        }

    disagreements = []
    for (number, case), told in complete_peer.ask(
        "Simple", "rankings", drawn(random.Random(f"simple ranks {seed}"), cases, draw), lambda case: plain(case[1])
    ):
        reports = {
            f"b{index}": complete(LoadReport(system_resource_usage=broker["usage"]))
            for index, broker in enumerate(case["brokers"])
        }
        quotas = Quotas(default=case["default"], cpu_factor=case["cpuFactor"])
        ranking = rank_brokers(build_simple_snapshot(reports), quotas, {}, SimpleStrategy.LEAST_LOADED_SERVER)
        columns = {
            key: np.array([figures_of(broker[key]) for broker in case["brokers"]]).T
            for key in ("allocated", "preallocated")
        }
        ranking = type(ranking)(**{**{key: getattr(ranking, key) for key in ranking.__dataclass_fields__}, **columns})
        everyone = np.arange(len(reports))
        ours = {
            "brokers": [
                {
                    "load": ranking.load[row],
                    "rate": ranking.message_rate[row],
                    "room": ranking.room[row],
                    "estimated": ranking.estimated[:, row].tolist(),
                    "allocated": ranking.allocated_percent[:, row].tolist(),
                }
                for row in everyone
            ],
            "less": [is_less_loaded(ranking, everyone, than).tolist() for than in everyone.tolist()],
        }
        if told != ours:
            disagreements.append(number)
    print(f"{cases} clusters, {len(disagreements)} differ")
    assert disagreements == []


# ---- quotas ----


def test_quotas_are_learned_and_written_alike(complete_peer: PulsarPeer, cases: int, seed: int) -> None:
    def draw(rng: random.Random) -> dict[str, Any]:
        rounds = [simple_cases.cluster(rng)]
        for _ in range(2):
            rounds.append(simple_cases.later(rng, rounds[-1], {}, by_ms=rng.choice((0, 60_000, 1_800_000, 10**8))))
        names = sorted({name for reports in rounds for report in reports.values() for name in report.bundle_stats})
        return {
            "configuration": {},
            "default": simple_cases.quota(rng),
            "average": simple_cases.quota(rng),
            "stored": {name: simple_cases.quota(rng) for name in names if rng.random() < 0.5},
            "cpuFactor": rng.choice((0.025, 0.0125)),
            "memoryFactor": rng.choice((25.0, 12.5)),
            "updatedAt": rng.choice((-1, 990_000)),
            "rounds": rounds,
        }

    def document(case: tuple[int, dict[str, Any]]) -> Any:
        return plain({**case[1], "rounds": [{"reports": documents(reports)} for reports in case[1]["rounds"]]})

    learned, disagreements = 0, []
    for (number, case), told in complete_peer.ask(
        "Simple", "quotas", drawn(random.Random(f"simple quotas {seed}"), cases, draw), document
    ):
        quotas = Quotas(
            default=case["default"],
            average=case["average"],
            cpu_factor=case["cpuFactor"],
            memory_factor=case["memoryFactor"],
            updated_at_ms=case["updatedAt"],
        )
        for reports, theirs in zip(case["rounds"], told, strict=True):
            quotas = update_quotas(build_simple_snapshot(reports), quotas.learning(case["stored"]))
            learned += quotas.cpu_factor != case["cpuFactor"]
            written = [name for name, _ in quotas_to_write(quotas.bundles, case["stored"].get, case["default"])]
            if average_to_write(quotas, case["default"]) is not None:
                written.append("")
            ours = {
                "quotas": {name: plain(quotas.of(name)) for name in quotas.bundles.names},
                "average": plain(quotas.average),
                "cpuFactor": quotas.cpu_factor,
                "memoryFactor": quotas.memory_factor,
                "wrote": sorted(written),
            }
            if {**theirs, "wrote": sorted(theirs["wrote"])} != ours:
                disagreements.append(number)
                break
    print(f"{cases} cases of three rounds, factors learned in {learned}, {len(disagreements)} differ")
    assert disagreements == []
    assert learned > cases // 10


# ---- placement ----


class PlacementCase:
    def __init__(self, rng: random.Random, *strategies: SimpleStrategy) -> None:
        self.settings = simple_cases.settings(rng, *strategies)
        self.default = simple_cases.quota(rng)
        self.cpu_factor = rng.choice((0.025, 0.015625, 0.1))
        self.cursor = rng.choice((0, 1, 5, 999_999))
        reports = simple_cases.cluster(rng)
        self.rounds: list[tuple[dict[str, LoadReport], list[str], list[str]]] = []
        for number in range(3):
            known = [name for report in reports.values() for name in report.bundle_stats]
            new = [bundle_name(100 + 20 * number + index, rng.choice(simple_cases.NAMESPACES)) for index in range(6)]
            bundles = rng.sample(new + known, min(6, len(new + known)))
            live = [name for name in reports if rng.random() < 0.95]
            self.rounds.append((reports, live, bundles))
            reports = simple_cases.later(rng, reports, {}, by_ms=60_000)
        names = [name for reports, _, bundles in self.rounds for name in bundles]
        names += [name for reports, _, _ in self.rounds for report in reports.values() for name in report.bundle_stats]
        self.stored = {name: simple_cases.quota(rng) for name in sorted(set(names)) if rng.random() < 0.5}

    def document(self, draws: int = 1) -> Any:
        return plain(
            {
                "configuration": overrides(self.settings),
                "default": self.default,
                "stored": self.stored,
                "cpuFactor": self.cpu_factor,
                "cursor": self.cursor,
                "draws": draws,
                "rounds": [
                    {"reports": documents(reports), "live": live, "bundles": bundles}
                    for reports, live, bundles in self.rounds
                ],
            }
        )

    def quotas(self) -> Quotas:
        return Quotas(
            bundles=QuotaTable.of(self.stored), default=self.default, cpu_factor=self.cpu_factor, updated_at_ms=0
        )


def test_bundles_are_placed_alike_round_after_round(complete_peer: PulsarPeer, cases: int, seed: int) -> None:
    preallocating = (SimpleStrategy.LEAST_LOADED_SERVER, SimpleStrategy.LEAST_MSG_PER_SECOND)
    codes: set[str] = set()
    disagreements = []
    for (number, case), told in complete_peer.ask(
        "Simple",
        "placements",
        drawn(random.Random(f"simple places {seed}"), cases, lambda rng: PlacementCase(rng, *preallocating)),
        lambda case: case[1].document(),
    ):
        memory, quotas, rng = SimpleMemory(cursor=case.cursor), case.quotas(), random.Random(number)
        for (reports, live, bundles), theirs in zip(case.rounds, told, strict=True):
            ranking, memory = rank(build_simple_snapshot(reports), quotas, memory, case.settings)
            same = dict(zip(sorted(reports), ranking.rank.tolist(), strict=True)) == theirs["ranks"]
            for namespace, ranked in theirs["available"].items():
                same &= {str(load): names for load, names in availability(ranking, namespace).items()} == ranked
            for bundle, chosen in zip(bundles, theirs["chosen"], strict=True):
                placement, ranking, memory = select_broker(
                    ranking, PlacementRequest(bundle), case.settings, quotas, live, rng, memory
                )
                codes.add(placement.reason.code)
                same &= chosen == ([] if placement.broker is None else [placement.broker])
            if not same:
                disagreements.append(number)
                break
    print(f"{cases} cases of three rounds, {len(disagreements)} differ; {', '.join(sorted(codes))}")
    assert disagreements == []
    assert len(codes) == 7


def test_the_weighted_draw_falls_on_the_same_brokers(complete_peer: PulsarPeer, cases: int, seed: int) -> None:
    """Pulsar draws none without weight, and each of at least a tenth of all weight."""
    draws, disagreements = 0, []
    for (number, case), told in complete_peer.ask(
        "Simple",
        "placements",
        drawn(
            random.Random(f"simple draws {seed}"),
            max(1, cases // 20),
            lambda rng: PlacementCase(rng, SimpleStrategy.WEIGHTED_RANDOM_SELECTION),
        ),
        lambda case: case[1].document(DRAWS),
    ):
        quotas = case.quotas()
        for (reports, live, bundles), theirs in zip(case.rounds, told, strict=True):
            ranking, memory = rank(build_simple_snapshot(reports), quotas, SimpleMemory(), case.settings)
            ranks = dict(zip(sorted(reports), ranking.rank.tolist(), strict=True))
            same = ranks == theirs["ranks"]
            for bundle, drawn_there in zip(bundles, theirs["chosen"], strict=True):
                placement, *_ = select_broker(
                    ranking, PlacementRequest(bundle), case.settings, quotas, live, random.Random(number), memory
                )
                same &= (placement.broker is None) == (not drawn_there)
                if placement.broker is None:
                    continue
                out = {"not_fewest_bundles", "not_live", "topic_kind_disabled"}
                kept = {each.name for each in placement.reason.alternatives if each.code not in out}
                weights = {name: ranks[name] for name in kept | {placement.broker}}
                total = sum(weights.values())
                likely = {name for name, weight in weights.items() if 10 * weight >= total}
                same &= likely <= set(drawn_there)
                same &= set(drawn_there) <= {name for name, weight in weights.items() if weight or not total}
                draws += DRAWS
            if not same:
                disagreements.append(number)
                break
    print(f"{draws} draws, {len(disagreements)} cases differ")
    assert disagreements == []


# ---- shedding and splitting ----


def test_the_same_brokers_shed_bundles_of_the_same_weight(complete_peer: PulsarPeer, cases: int, seed: int) -> None:
    """Bundles that are equal by the bottleneck come in the order of a hash map there: ours is among them."""

    def draw(rng: random.Random) -> tuple[SimpleSettings, dict[str, LoadReport], set[str]]:
        reports = {name: stepped(report) for name, report in simple_cases.cluster(rng).items()}
        names = sorted(name for report in reports.values() for name in report.bundle_stats)
        recent = set(rng.sample(names, len(names) // 4)) if rng.random() < 0.5 else set()
        return simple_cases.settings(rng), reports, recent

    def document(case: tuple[int, tuple[SimpleSettings, dict[str, LoadReport], set[str]]]) -> Any:
        settings, reports, recent = case[1]
        default = ResourceQuota(msg_rate_in=1, memory=1)
        return plain(
            {
                "configuration": overrides(settings),
                "default": default,
                "reports": documents(reports),
                "recent": sorted(recent),
            }
        )

    moved, ties, disagreements = 0, 0, []
    for (number, (settings, reports, recent)), told in complete_peer.ask(
        "Simple", "shed", drawn(random.Random(f"simple sheds {seed}"), cases, draw), document
    ):
        plan = {
            unload.source: unload.bundle
            for unload in SimpleShedder(settings).decide(
                build_simple_snapshot(reports, recently_unloaded=recent), None
            )[0]
        }
        same = True
        for name, report in reports.items():
            theirs = [bundle for bundle in told if bundle in report.bundle_stats]
            ours = [plan[name]] if name in plan else []
            moved += len(theirs)
            step = STEPS[bottleneck(report)]
            heaviest = max((step(stats) for stats in report.bundle_stats.values()), default=0)
            equal = {bundle for bundle, stats in report.bundle_stats.items() if step(stats) == heaviest}
            if len(equal) > 1 and equal & recent and theirs != ours:
                ties += 1  # whether anything leaves depends on which of them comes first
                continue
            ties += theirs != ours
            same &= len(theirs) == len(ours) and {*theirs, *ours} <= equal
        if not same:
            disagreements.append(number)
    print(f"{cases} clusters, {moved} bundles shed, {ties} ties fell otherwise, {len(disagreements)} differ")
    assert disagreements == []
    assert moved > cases // 4
    assert ties < moved // 2


def test_the_same_bundles_are_split(complete_peer: PulsarPeer, cases: int, seed: int) -> None:
    """Counts leave room for all, because Pulsar does not count the splits of the same run."""

    def draw(rng: random.Random) -> dict[str, Any]:
        return {
            "configuration": {
                "loadBalancerNamespaceBundleMaxTopics": rng.choice((1000, 2)),
                "loadBalancerNamespaceBundleMaxSessions": rng.choice((1000, -1, 0, 500)),
                "loadBalancerNamespaceBundleMaxMsgRate": 30_000,
                "loadBalancerNamespaceBundleMaxBandwidthMbytes": rng.choice((100, 1)),
                "loadBalancerNamespaceMaximumBundles": 128,
            },
            "report": next(iter(simple_cases.cluster(rng, most_brokers=1).values())),
            "bundleCounts": {"t/a": rng.choice((4, 60, 128, 200)), "t/b": rng.choice((4, 128))},
        }

    split, disagreements = 0, []
    for (number, case), told in complete_peer.ask(
        "Simple",
        "split",
        drawn(random.Random(f"simple splits {seed}"), cases, draw),
        lambda case: plain({**case[1], "report": simple_cases.document(case[1]["report"])}),
    ):
        settings = BundleLimits.of(configuration(case["configuration"]))
        plan = SimpleSplitter(settings).decide(
            build_simple_snapshot({"a": case["report"]}), case["bundleCounts"], no_boundaries, None
        )[0]
        ours = sorted(each.bundle for each in plan)
        split += len(ours)
        if ours != sorted(told):
            disagreements.append(number)
    print(f"{cases} reports, {split} bundles split, {len(disagreements)} differ")
    assert disagreements == []
    assert split > cases
