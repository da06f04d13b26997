"""What a broker's process answers from the pipeline's tables, and what it loads only then."""

import subprocess
import sys
from pathlib import Path

from pulsar_barycenter.load.reports.load_over_time import load_question
from pulsar_barycenter.run.broker_process import load_tables_of

TABLES_ARE_LOADED = """
import sys
import pulsar_barycenter.cli.run.broker
sys.exit("pyarrow.parquet" in sys.modules or any(name.startswith("pulsar_barycenter.pipeline") for name in sys.modules))
"""


def test_a_data_folder_without_tables_is_told_of(tmp_path: Path) -> None:
    found = load_tables_of(tmp_path)(load_question(0, 3_600_000))
    assert (found.loads, found.whole_since_ms) == ({}, 3_600_000)
    assert "no tables" in found.note


def test_a_broker_starts_without_what_reads_tables() -> None:
    assert subprocess.run([sys.executable, "-c", TABLES_ARE_LOADED], check=False).returncode == 0
