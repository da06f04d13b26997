"""Generated load reports: the same for the same seed, of the requested shape."""

from dataclasses import replace
from itertools import takewhile
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from pulsar_barycenter.cli.main import main
from pulsar_barycenter.load.reports.load_report import LocalBrokerData, NamespaceBundleStats, decode_report, with_stats
from pulsar_barycenter.naming.bundle import Bundle
from pulsar_barycenter.naming.bundles import NamespaceBundles
from pulsar_barycenter.replay.synthetic.reports import LoadGenerator, LoadPlan, NamespaceTraces, with_usage
from pulsar_barycenter.replay.synthetic.shapes import Distribution
from pulsar_barycenter.replay.traces import Trace

START_MS = 1_790_000_000_000
PLAN = LoadPlan(brokers=3, bundles=24, interval_ms=60_000, start_ms=START_MS)


def rates(generator: LoadGenerator, reports: int) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for number in range(reports):
        for name, stats in generator.report(number).last_stats.items():
            found.setdefault(name, []).append(stats.msg_rate_in)
    return found


def test_a_seed_says_it_all_and_reports_can_be_made_in_any_order() -> None:
    there = [LoadGenerator(PLAN).report(number) for number in range(30)]
    generator = LoadGenerator(PLAN)
    assert [generator.report(number) for number in reversed(range(30))] == there[::-1]
    other = LoadGenerator(replace(PLAN, seed=2))
    assert all(other.report(number).last_stats != there[number].last_stats for number in range(30))


@given(st.integers(1, 7), st.integers(1, 2000), st.integers(-10, 9000))
def test_reports_until_an_end_are_those_before_it(brokers: int, interval_ms: int, length_ms: int) -> None:
    generator = LoadGenerator(LoadPlan(brokers=brokers, bundles=1, interval_ms=interval_ms, start_ms=START_MS))
    times = (generator.time_of(number) for number in range(10**6))
    before = list(takewhile(lambda at: at < START_MS + length_ms, times))
    assert generator.reports_until(START_MS + length_ms) == len(before)
    assert before == sorted(before)


def test_every_bundle_is_in_one_brokers_reports_and_together_they_tile_the_namespace() -> None:
    generator = LoadGenerator(PLAN)
    reports = [generator.report(number) for number in range(6)]
    names = sorted(name for report in reports[:3] for name in report.bundles)
    ranges = [Bundle.parse(name) for name in names]
    assert [str(each) for each in ranges] == [
        str(each) for each in NamespaceBundles.equal(ranges[0].namespace, 24).bundles
    ]
    assert len(names) == len(set(names)) == 24
    assert [report.bundles for report in reports[3:]] == [report.bundles for report in reports[:3]]
    assert [report.sequence for report in reports] == [1, 1, 1, 2, 2, 2]
    assert all(report.last_bundle_gains == report.bundles for report in reports[:3])
    assert not any(report.last_bundle_gains or report.last_bundle_losses for report in reports[3:])


@pytest.mark.parametrize("distribution", list(Distribution))
def test_the_mean_over_bundles_and_a_day_is_the_one_asked_for(distribution: Distribution) -> None:
    """Noise is 10 % of a sample and the swing takes as much as it gives: over a day little of either is left."""
    plan = replace(PLAN, distribution=distribution, mean_rate=40.0, interval_ms=1_800_000)
    found = rates(LoadGenerator(plan), 3 * 48)
    assert np.mean([np.mean(each) for each in found.values()]) == pytest.approx(40.0, rel=0.03)


def test_of_zipfs_law_the_busiest_has_twice_the_rate_of_the_second() -> None:
    plan = replace(PLAN, distribution=Distribution.ZIPF, interval_ms=1_800_000)
    means = sorted((float(np.mean(each)) for each in rates(LoadGenerator(plan), 3 * 48).values()), reverse=True)
    assert means[0] / means[1] == pytest.approx(2.0, rel=0.05)
    assert means[0] / means[4] == pytest.approx(5.0, rel=0.05)


def test_bundles_follow_their_traces_and_a_second_bundle_of_a_trace_is_elsewhere_in_its_day() -> None:
    """Two traces of two steps of a minute, four bundles: the third is the first one's trace, half of it later."""
    traces = (Trace("steady", 0, 60_000, (60.0, 60.0)), Trace("swaying", 0, 60_000, (0.0, 120.0)))
    plan = LoadPlan(
        brokers=1,
        bundles=4,
        interval_ms=60_000,
        start_ms=START_MS,
        distribution=Distribution.EVEN,
        mean_rate=10.0,
        namespaces=(NamespaceTraces("tweets", traces),),
    )
    steady, swaying, again, later = (each for _, each in sorted(rates(LoadGenerator(plan), 400).items()))
    for each in (steady, again):
        assert np.mean(each) == pytest.approx(10.0, rel=0.03)
    assert swaying[0::2] == [0.0] * 200
    assert np.mean(swaying[1::2]) == pytest.approx(20.0, rel=0.03)
    assert later[1::2] == [0.0] * 200
    assert np.mean(later[0::2]) == pytest.approx(20.0, rel=0.03)


def test_more_topics_than_bundles_add_up() -> None:
    traces = tuple(Trace(f"t{number}", 0, 60_000, (60.0,)) for number in range(5))
    plan = replace(
        PLAN, brokers=1, bundles=2, distribution=Distribution.EVEN, namespaces=(NamespaceTraces("n", traces),)
    )
    first, second = (stats for _, stats in sorted(LoadGenerator(plan).report(0).last_stats.items()))
    assert (first.topics, second.topics) == (3, 2)
    means = [float(np.mean(each)) for _, each in sorted(rates(LoadGenerator(plan), 300).items())]
    assert means == pytest.approx([120.0, 80.0], rel=0.03)


def test_what_a_broker_uses_follows_from_its_rates() -> None:
    """The example of the module: 100 msg/s in, 200 out, at 10 µs of a core each; 1 KiB a message."""
    stats = NamespaceBundleStats(
        msg_rate_in=100.0, msg_rate_out=200.0, msg_throughput_in=102_400.0, msg_throughput_out=204_800.0, topics=1
    )
    used = with_usage(with_stats(LocalBrokerData(), {"t/n/0x00000000_0xffffffff": stats}))
    assert used.cpu.usage == pytest.approx(0.3)
    assert used.cpu.limit == 800.0
    assert used.bandwidth_in.usage == pytest.approx(819.2)
    assert used.bandwidth_out.usage == pytest.approx(1638.4)
    assert used.direct_memory.usage == pytest.approx(0.5 * 307_200 / 2**20)


def generate(*words: str) -> tuple[int, str]:
    answer = CliRunner().invoke(main, ["generate-load", *words])
    return answer.exit_code, answer.output


def test_the_command_writes_what_brokers_write(tmp_path: Path) -> None:
    """Two namespaces of traces, from noon on: two brokers, a report each half minute, for one minute."""
    for folder in ("east", "west"):
        (tmp_path / "traces" / folder).mkdir(parents=True)
        (tmp_path / "traces" / folder / "a.csv").write_text("timestamp,value\n2026-01-01,5\n2026-01-02,7\n")
    out = tmp_path / "data"
    words = ["--out", str(out), "--brokers", "2", "--bundles", "6", "--interval", "30s", "--duration", "1m"]
    words += ["--start", "2026-01-01T12:00", "--from-traces", str(tmp_path / "traces")]
    code, said = generate(*words)
    assert (code, said.partition(" of ")[0]) == (0, "wrote 4 reports")
    files = sorted((out / "load-reports" / "2026-01-01").iterdir())
    reports = [decode_report(file.read_bytes()) for file in files]
    assert sorted(report.last_update % 3_600_000 for report in reports) == [0, 15_000, 30_000, 45_000]
    bundles = {name for report in reports for name in report.bundles}
    assert {Bundle.parse(name).namespace.local_name for name in bundles} == {"east", "west"}
    assert len(bundles) == 6
    generate(*words)
    assert [decode_report(file.read_bytes()) for file in files] == reports


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--duration", "soon"), "--duration soon: give a span"),
        (("--interval", "0s"), "--interval 0s: give a span"),
        (("--start", "noon"), "--start noon: give a span"),
        (("--from-traces", "."), "has .csv files of timestamp,value"),
    ],
)
def test_what_cannot_be_done_is_said(words: tuple[str, ...], said: str, tmp_path: Path) -> None:
    words = tuple(str(tmp_path) if word == "." else word for word in words)
    code, output = generate("--out", str(tmp_path / "data"), *words)
    assert code != 0
    assert said in output
    assert not (tmp_path / "data").exists()
