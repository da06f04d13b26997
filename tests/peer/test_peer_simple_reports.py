"""Reports of the simple load manager beside Pulsar's: what they say, how they are judged, when they are written.

Pulsar's `SimpleLoadManagerImpl` runs with mocks for the store, the policies, the admin client and the host. Not driven:
its timers and notifications, the JVM's own heap and direct memory (they are asked for and judged by).
"""

import random
from typing import Any

import msgspec
import pytest

from pulsar_barycenter.load.reports.load_report import ResourceQuota, SystemResourceUsage, encode_without_none
from pulsar_barycenter.load.reports.simple_load_report import (
    LoadReport,
    complete,
    decode_load_report,
    gains_and_losses,
    is_above_load_level,
    is_below_load_level,
    with_quotas,
)
from pulsar_barycenter.load.reports.simple_report_rule import SimpleReportRule, judge_report
from pulsar_barycenter.load.simple.quotas import Quotas
from support import simple_cases
from support.load_cases import bundle_name
from support.peer_cases import configuration, drawn
from support.pulsar_peer import PulsarPeer, plain
from support.simple_cases import STEPS, bottleneck, stepped

pytestmark = [pytest.mark.peer, pytest.mark.xdist_group("peer"), pytest.mark.timeout(3600)]
OWN = {"advertisedListeners", "incarnation", "sequence"}


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
