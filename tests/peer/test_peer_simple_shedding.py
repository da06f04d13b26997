"""The simple load manager's shedding and splitting beside Pulsar's.

Pulsar's `SimpleLoadManagerImpl` runs with mocks for the store, the policies, the admin client and the host; its timers
are not driven. Figures are whole numbers, because Pulsar adds up in the order of a hash map.
"""

import random
from typing import Any

import pytest

from pulsar_barycenter.load.reports.load_report import ResourceQuota
from pulsar_barycenter.load.reports.simple_load_report import LoadReport
from pulsar_barycenter.load.simple.shedding import SimpleShedder
from pulsar_barycenter.load.simple.simple_settings import SimpleSettings
from pulsar_barycenter.load.simple.splitting import SimpleSplitter
from pulsar_barycenter.load.snapshot.simple_snapshot import build_simple_snapshot
from pulsar_barycenter.load.splitting.split_plan import BundleLimits
from pulsar_barycenter.load.splitting.splitter import no_boundaries
from support import simple_cases
from support.peer_cases import configuration, drawn
from support.pulsar_peer import PulsarPeer, plain
from support.simple_cases import STEPS, bottleneck, documents, overrides, stepped

pytestmark = [pytest.mark.peer, pytest.mark.xdist_group("peer"), pytest.mark.timeout(3600)]


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
