"""`pipeline sizing`: estimates grow with the load, options fit it, and a data folder's load is measured."""

from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from pulsar_barycenter.cli.main import main
from pulsar_barycenter.pipeline.history import History
from pulsar_barycenter.pipeline.running.sizing import Workload, estimate
from support.data_of_before import copied

LOADS = st.builds(Workload, st.integers(1, 2_000), st.integers(1, 5_000_000), st.floats(0.5, 3_600))


def run(*arguments: str, exit_code: int = 0) -> str:
    result = CliRunner().invoke(main, ["pipeline", "sizing", *arguments])
    assert result.exit_code == exit_code, result.output
    return result.output


@given(LOADS, st.integers(1, 64))
def test_more_bundles_or_reports_never_need_less(load: Workload, cores: int) -> None:
    before = estimate(load, retention_days=30, cores=cores)
    for more in (
        Workload(load.brokers, load.bundles * 2, load.interval_s),
        Workload(load.brokers, load.bundles, load.interval_s / 2),
    ):
        after = estimate(more, retention_days=30, cores=cores)
        assert after.samples_per_day > before.samples_per_day
        assert after.trigger_s >= before.trigger_s
        assert after.archive > before.archive
        assert after.state >= before.state


@given(LOADS, st.integers(1, 64))
def test_recommended_options_bound_a_batch(load: Workload, cores: int) -> None:
    sizing = estimate(load, retention_days=30, cores=cores)
    if sizing.trigger_s < 60:
        assert sizing.batch_samples <= load.bundles or sizing.batch_s <= sizing.trigger_s / 2
    per_report = load.bundles / load.brokers
    assert sizing.max_files * per_report <= max(500_000, per_report)
    if cores < 2:
        assert sizing.fold == "driver"


def test_too_much_load_is_called_so() -> None:
    assert not estimate(Workload(1_000, 1_000_000, 5), retention_days=30, cores=2).keeps_up
    assert "CANNOT keep up" in run("--brokers", "1000", "--bundles", "1000000", "--interval", "5", "--cores", "2")
    assert estimate(Workload(100, 100_000, 60), retention_days=30, cores=2).keeps_up


@pytest.mark.parametrize("values", [(0, 1, 1.0), (1, 0, 1.0), (1, 1, 0.0), (1, 1, float("inf"))])
def test_a_load_of_nothing_is_refused(values: tuple[int, int, float]) -> None:
    with pytest.raises(ValueError, match="must be positive"):
        Workload(*values)


def test_the_load_of_a_folder_is_measured(tmp_path: Path) -> None:
    layout = copied(tmp_path / "cluster")
    reports = History(layout).rows("load_reports", ["broker", "reported_at", "bundles"]).to_pylist()
    newest = {row["broker"]: row for row in sorted(reports, key=lambda row: row["reported_at"])}
    found = msgspec.json.decode(run("--data", str(layout.root), "--json"))
    assert found["load"]["brokers"] == len(newest)
    assert found["load"]["bundles"] == sum(row["bundles"] for row in newest.values())
    times = [row["reported_at"] for row in reports if row["broker"] == next(iter(newest))]
    assert found["load"]["interval_s"] == pytest.approx(
        (max(times) - min(times)).total_seconds() / (len(times) - 1), rel=0.5
    )
    replaced = msgspec.json.decode(run("--data", str(layout.root), "--bundles", "77", "--json"))
    assert replaced["load"] == found["load"] | {"bundles": 77}


def test_missing_values_are_named(tmp_path: Path) -> None:
    assert "give --bundles, --interval" in run("--brokers", "3", exit_code=2)
    (tmp_path / "load-reports").mkdir()
    assert "too few reports to measure it" in run("--data", str(tmp_path), exit_code=2)
