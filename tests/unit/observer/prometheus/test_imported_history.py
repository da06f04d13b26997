"""What is imported is a history: the pipeline makes the tables of a collected one, and replays and advice read it."""

import json
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result

from pulsar_barycenter.cli.main import main
from pulsar_barycenter.lab.inputs import InputSpec, read_input
from pulsar_barycenter.load.reports.load_report import LocalBrokerData
from pulsar_barycenter.pipeline.storage.layout import PipelineLayout
from pulsar_barycenter.pipeline.stream.micro_batches import StreamSettings
from support.pipeline_without_spark import rows_of, run_once
from support.stored_metrics import BEGIN_MS, BUNDLES, NAMESPACE, STEP_MS, Load, steady


def exported(folder: Path, load: Load) -> tuple[Path, Path]:
    """The metrics of a load and its boundaries as files."""
    metrics, bundles = folder / "metrics.json", folder / "bundles.json"
    result = {"status": "success", "data": {"resultType": "matrix", "result": load.series()}}
    metrics.write_bytes(msgspec.json.encode(result))
    bundles.write_text(json.dumps({str(NAMESPACE): {"boundaries": BUNDLES.boundary_texts(), "numBundles": 4}}))
    return metrics, bundles


def run(*words: str) -> Result:
    return CliRunner().invoke(main, ["import", "prometheus", *words])


def reports_in(folder: Path) -> list[LocalBrokerData]:
    files = sorted((folder / "load-reports").rglob("*.json"))
    return [msgspec.json.decode(file.read_bytes(), type=LocalBrokerData) for file in files]


def numbered(load: Load) -> list[LocalBrokerData]:
    """What a collector would have recorded, numbered."""
    found: list[LocalBrokerData] = []
    for report in load.reports():
        before = sum(each.broker_id == report.broker_id for each in found)
        found.append(msgspec.structs.replace(report, incarnation="started-1-1", sequence=before + 1))
    return found


def test_the_tables_are_those_of_a_collected_history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load = steady(steps=60)
    metrics, bundles = exported(tmp_path, load)
    out = tmp_path / "imported"
    done = run("--file", str(metrics), "--bundles", str(bundles), "--out", str(out), "--cores", "4", "--json")
    assert done.exit_code == 0, done.output
    outcome = json.loads(done.stdout)
    assert (outcome["reports"], outcome["brokers"], outcome["bundles"]) == (120, 2, 4)
    assert outcome["since"] == BEGIN_MS
    assert outcome["until"] == BEGIN_MS + 60 * STEP_MS
    layouts = []
    for folder, reports in ((out, reports_in(out)), (tmp_path / "collected", numbered(load))):
        layout = PipelineLayout.of(folder)
        layout.create()
        run_once(layout, reports, StreamSettings(), monkeypatch)
        layouts.append(layout)
    for table, value in (("bundle_samples", "msg_rate_in"), ("broker_usage", "cpu_usage")):
        mine, theirs = (
            sorted((row["reported_at"], row["broker"], row.get("bundle", ""), round(row[value], 6)) for row in found)
            for found in (rows_of(layout, table) for layout in layouts)
        )
        assert mine == theirs
    owned, known = (
        sorted((row["bundle"], row["broker"], row["owned_from"]) for row in rows_of(layout, "ownership"))
        for layout in layouts
    )
    assert owned == known
    found = read_input(InputSpec(paths=(str(out),)))
    assert found.is_apache_pulsar
    assert set(found.demand.bundles) == {str(bundle) for bundle in BUNDLES.bundles}
    assert found.demand.rate_in.sum() == pytest.approx(sum(sum(rates) for rates in load.rates.values()))
    assert "the imported metrics do not have memory and direct memory" in found.warnings
    told = CliRunner().invoke(
        main,
        ["advise", "--input", str(out), "--strategy", "AvgShedder", "--seeds", "1-2", "--processes", "1", "--json",
         "--set", "loadBalancerAvgShedderLowThreshold=5,15"],
    )  # fmt: skip
    assert told.exit_code == 0, told.output
    assert json.loads(told.stdout)["rightSizing"]["today"] == 2


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "give --url, or --file"),
        (("--url", "http://a:1", "--file", "METRICS"), "give --url, or --file"),
        (("--url", "prometheus:9090"), "begins with http:// or https://"),
        (("--file", "METRICS", "--match", "job"), "give LABEL=VALUE"),
        (("--file", "METRICS", "--bundles", "METRICS"), "does not have the boundaries of namespaces"),
    ],
)
def test_wrong_usage_is_told(words: tuple[str, ...], told: str, tmp_path: Path) -> None:
    metrics, _ = exported(tmp_path, steady())
    done = run("--out", str(tmp_path / "out"), *(str(metrics) if word == "METRICS" else word for word in words))
    assert done.exit_code == 2
    assert told in " ".join(done.stderr.replace("│", "").split())
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--file", "METRICS", "--step", "30s"), "give --step 60s or more"),
        (("--file", "METRICS"), "to find the bundles of topics, give --admin-url or --bundles"),
        (("--file", "BUNDLES"), "is not an answer of Prometheus's query_range"),
        (("--url", "http://127.0.0.1:1"), "asked 6 times"),
    ],
    ids=["step", "no boundaries", "form", "nobody"],
)
def test_what_cannot_be_imported_is_told(
    words: tuple[str, ...], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    metrics, bundles = exported(tmp_path, steady())
    files = {"METRICS": str(metrics), "BUNDLES": str(bundles)}
    monkeypatch.setattr("pulsar_barycenter.observer.prometheus.http_api.FIRST_BACK_OFF_S", 0.001)
    done = run("--out", str(tmp_path / "out"), *(files.get(word, word) for word in words))
    assert done.exit_code == 1
    assert told in " ".join(done.stderr.split())
