"""Tests of one group share what starts slowly. If pytest and xdist disagree on groups, neither reports it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

_GROUPED = """
import os
from pathlib import Path

import pytest


@pytest.mark.parametrize("number", range(3))
@pytest.mark.parametrize("group", [pytest.param(name, marks=pytest.mark.xdist_group(name)) for name in "ab"])
def test_that_tells_where_it_runs(group, number):
    Path(__file__).with_name(f"{group}-{number}").write_text(os.environ["PYTEST_XDIST_WORKER"])
"""


def test_the_tests_of_a_group_are_run_by_one_worker(tmp_path: Path) -> None:
    """By the installed versions of both, with the options of the Makefile and no other plug-ins."""
    (tmp_path / "test_grouped.py").write_text(_GROUPED)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "xdist", "-n", "2", "--dist", "loadgroup"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == pytest.ExitCode.OK, done.stdout + done.stderr
    workers = {group: {file.read_text() for file in tmp_path.glob(f"{group}-*")} for group in "ab"}
    assert workers["a"] != workers["b"]
    assert [len(found) for found in workers.values()] == [1, 1]
