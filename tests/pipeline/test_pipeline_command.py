"""`barycenter pipeline run` as a person starts it: in a terminal, ended by Ctrl-C."""

import json
import os
import pty
import re
import subprocess
import sys
import threading
import urllib.request
from contextlib import suppress

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from pulsar_barycenter.pipeline.storage.layout import PipelineLayout
from pulsar_barycenter.pipeline.tables.schemas import TABLES
from support.load_history import make_history
from support.pipeline_oracles import PipelineOracle, assert_tables_follow
from support.pipeline_runs import write_reports

pytestmark = pytest.mark.pipeline

_PROGRAM = [sys.executable, "-m", "pulsar_barycenter", "pipeline"]
_IN_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""
_DEADLINE_S = 120.0


def test_in_a_terminal_batches_are_told_in_words_control_c_ends_in_order_and_a_refold_agrees(
    spark: SparkSession, layout: PipelineLayout
) -> None:
    """The terminal sends Ctrl-C to every process in it, Java among them, once a batch was told of.

    Status and refold are asked afterwards, about the same data.
    """
    reports = make_history(15, reports=12)
    write_reports(layout, reports)
    environment = {name: value for name, value in os.environ.items() if name != "SPARK_LOCAL_IP"}
    command = [*_PROGRAM, "run", "--data", str(layout.data), "--trigger-seconds", "0.2", "--metrics-port", "0"]
    terminal, its_end = pty.openpty()
    run = subprocess.Popen(
        [sys.executable, "-c", _IN_TERMINAL, *command],
        stdin=its_end,
        stdout=its_end,
        stderr=its_end,
        env=environment,
        start_new_session=True,
    )
    os.close(its_end)
    guard = threading.Timer(_DEADLINE_S, run.kill)
    guard.start()
    said, figures = b"", ""
    with suppress(OSError):  # the terminal is gone when the process is
        while chunk := os.read(terminal, 4096):
            asked_before = b": 12 reports" in said
            said += chunk
            if not asked_before and b": 12 reports" in said:
                metrics = re.search(rb"serving metrics for Prometheus at (http://127\.0\.0\.1:\d+/metrics)", said)
                assert metrics is not None, said
                with urllib.request.urlopen(metrics[1].decode()) as answer:
                    figures = answer.read().decode()
                os.write(terminal, b"\x03")
    code = run.wait(_DEADLINE_S)
    guard.cancel()
    guard.join()
    os.close(terminal)
    assert code == 0, said.decode()
    assert b"stopped in order after 1 batch" in said
    assert b"{" not in said
    assert "barycenter_pipeline_reports_total 12.0" in figures
    assert_tables_follow(spark, layout, PipelineOracle(reports))
    status = [*_PROGRAM, "status", "--data", str(layout.data), "--json"]
    answer = subprocess.run(status, capture_output=True, check=True, timeout=_DEADLINE_S)
    told = json.loads(answer.stdout)
    assert (told["state"], told["alive"], told["reports"]) == ("stopped", False, 12)

    again = [*_PROGRAM, "refold", "--data", str(layout.data), "--check", "--out", str(layout.data / "refolded")]
    refolded = subprocess.run(again, capture_output=True, text=True, env=environment, timeout=_DEADLINE_S, check=False)
    assert refolded.returncode == 0, refolded.stdout + refolded.stderr
    for name in ("bundle_data", "broker_data"):
        assert f"{name}  agrees: " in refolded.stdout
        written = pq.read_table(layout.data / "refolded" / f"{name}.parquet")
        assert written.schema.names == TABLES[name].schema.names
        assert len(written) > 0
