"""Metrics and files that nobody should store: each is left out or refused with a sentence, and nothing hangs."""

import fcntl
import math
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web
from click.testing import CliRunner, Result

from pulsar_barycenter.admin.client import AdminClient
from pulsar_barycenter.cli.main import main
from pulsar_barycenter.load.reports.load_report import decode_report
from pulsar_barycenter.observer.prometheus.http_api import PrometheusApi, usual_back_off
from pulsar_barycenter.observer.prometheus.series import ImportRefusedError, Series, Window
from support.stored_metrics import BEGIN_MS, BUNDLES, NAMESPACE, STEP_MS, FakePrometheus, steady


def answer_file(folder: Path, series: list[Series]) -> Path:
    file = folder / "day.json"
    data = {"resultType": "matrix", "result": series}
    file.write_bytes(msgspec.json.encode({"status": "success", "data": data}))
    return file


def imported(folder: Path, file: Path) -> Result:
    bounds = folder / "bundles.json"
    bounds.write_bytes(msgspec.json.encode({str(NAMESPACE): BUNDLES.boundary_texts()}))
    words = ("import", "prometheus", "--file", file, "--bundles", bounds, "--out", folder / "out")
    result = CliRunner().invoke(main, [str(word) for word in words])
    assert result.exception is None or isinstance(result.exception, SystemExit), repr(result.exception)
    return result


@pytest.mark.parametrize("value", ["1e308", "NaN", "+Inf", "-1", "-1e308", "1_0e400", "\x1b[2J"], ids=range(7))
def test_values_beyond_reason_are_left_out(tmp_path: Path, value: str) -> None:
    """Two values of 1e308 would add up to infinity, which no report can have."""
    series = [Series(one.metric, [(at, value) for at, _ in one.values]) for one in steady(steps=3).series()]
    usual = [one for one in steady(steps=3).series() if one.metric["__name__"] == "pulsar_broker_topics_count"]
    others = [one for one in series if one.metric["__name__"] != "pulsar_broker_topics_count"]
    result = imported(tmp_path, answer_file(tmp_path, usual + others))
    assert result.exit_code == 0, result.output
    reports = [decode_report(file.read_bytes()) for file in (tmp_path / "out" / "load-reports").rglob("*.json")]
    assert len(reports) == 6
    assert all(math.isfinite(report.cpu.usage) and math.isfinite(report.msg_rate_in) for report in reports)


@pytest.mark.parametrize("time", [-1.0, 253_402_300_800.0, 1e300])
def test_times_beyond_the_calendar_are_refused(tmp_path: Path, time: float) -> None:
    series = steady(steps=3).series()
    series[0].values.append((time, "1"))
    result = imported(tmp_path, answer_file(tmp_path, series))
    assert (result.exit_code, "not between the years 1970 and 9999" in result.output) == (1, True)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("time", ["e", ".", "1e999", "1e", "+"])
def test_text_without_a_time_is_refused(tmp_path: Path, time: str) -> None:
    file = tmp_path / "day.txt"
    file.write_text(f'pulsar_lb_cpu_usage{{instance="a"}} 1 {time}\n')
    result = imported(tmp_path, file)
    assert result.exit_code == 1
    assert "line 1 is not a sample with a time" in result.output or "years 1970 and 9999" in result.output


def test_times_out_of_order_are_sorted(tmp_path: Path) -> None:
    series = [Series(one.metric, list(reversed(one.values))) for one in steady(steps=3).series()]
    assert imported(tmp_path, answer_file(tmp_path, series)).exit_code == 0


def test_names_cannot_act_on_the_terminal(tmp_path: Path) -> None:
    series = steady(steps=3).series()
    other = [Series({**one.metric, "cluster": "\x1b]0;owned\x07"}, one.values) for one in series]
    result = imported(tmp_path, answer_file(tmp_path, series + other))
    assert (result.exit_code, "2 clusters" in result.output) == (1, True)
    assert "\x1b" not in result.output


@pytest.mark.parametrize(
    "content",
    [b'{"status": "\xff"}', b'{"other": ' + b"[" * 100_000, b"\0" * 100],
    ids=["bytes", "deep", "no JSON"],
)
def test_files_of_another_kind_are_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "day.json"
    file.write_bytes(content)
    result = imported(tmp_path, file)
    assert (result.exit_code, "is not an answer of Prometheus's query_range" in result.output) == (1, True)


@pytest.mark.parametrize("name", ["day.json", "day.txt"])
def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    result = imported(tmp_path, tmp_path / name)
    assert (result.exit_code, "not a regular file" in result.output) == (1, True)


def test_two_imports_do_not_fill_one_folder(tmp_path: Path) -> None:
    file = answer_file(tmp_path, steady(steps=3).series())
    (tmp_path / "out").mkdir()
    folder = os.open(tmp_path / "out", os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    result = imported(tmp_path, file)
    assert (result.exit_code, "another process imports into" in result.output) == (1, True)
    assert not list((tmp_path / "out").iterdir())
    os.close(folder)
    assert imported(tmp_path, file).exit_code == 0


@pytest.mark.parametrize(
    "body",
    [
        b'{"status": "success", "data": ' + b"[" * 100_000,
        b'{"status": "\xff"}',
        b'{"status": "success", "data": {"resultType": "scalar", "result": [1, "Inf"]}}',
        b'{"status": "success", "data": {"resultType": "matrix", "result": [{"metric": {}, "values": [[1e300, ""]]}]}}',
    ],
    ids=["too deep", "not UTF-8", "endless", "late"],
)
async def test_answers_of_another_kind_are_refused(body: bytes) -> None:
    client = AdminClient(most_bytes=1 << 20)
    async with FakePrometheus(steady().series()) as fake:
        source = PrometheusApi(fake.url, client, back_off=usual_back_off())
        fake.first = [answered(body), answered(body)]
        with pytest.raises(ImportRefusedError):
            await source.now_ms()
        with pytest.raises(ImportRefusedError):
            await source.series("pulsar_rate_in", "", Window(BEGIN_MS, STEP_MS, 3))
    await client.close()


def answered(body: bytes) -> Any:
    return web.Response(body=body, content_type="application/json")
