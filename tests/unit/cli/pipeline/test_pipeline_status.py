"""`barycenter pipeline status` for an operator: every state, its text and its exit code."""

import dataclasses
import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pulsar_barycenter.cli.main import main
from pulsar_barycenter.cli.pipeline.event_lines import person_renderer
from pulsar_barycenter.pipeline.running.status import StatusFile
from pulsar_barycenter.pipeline.storage.layout import PipelineLayout
from pulsar_barycenter.pipeline.stream.batch_result import BatchResult, RefoldDue
from pulsar_barycenter.standalone.data_directory import DataDirectory, DataDirectoryLock
from pulsar_barycenter.standalone.restarts import Restart, RestartNote

AT_MS = 1_790_000_000_000


@pytest.fixture
def layout(tmp_path: Path) -> PipelineLayout:
    made = PipelineLayout.of(tmp_path)
    made.create()
    return made


@pytest.fixture
def held(layout: PipelineLayout) -> Iterator[None]:
    """This process holds the lock of the pipeline, as a job does."""
    with layout.lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def batch_of_one_report() -> BatchResult:
    return BatchResult(
        batch_id=0,
        reports=1,
        samples=1,
        bundles=1,
        duplicates=0,
        corrupt_files=(),
        lag_ms=5,
        newest_lag_ms=5,
        seconds=0.1,
        as_of=AT_MS,
    )


def restart() -> Restart:
    return Restart(
        by="barycenter standalone", pid=os.getpid(), since_ms=AT_MS, attempt=2, reason="it ended with code -9"
    )


def write_status(layout: PipelineLayout, state: str, *, error: str | None = None, pid: int | None = None) -> None:
    status = StatusFile(layout, pid=pid or os.getpid())
    batch = BatchResult(
        batch_id=4,
        reports=12,
        samples=1200,
        bundles=300,
        duplicates=2,
        corrupt_files=("bad.json",),
        lag_ms=1500,
        newest_lag_ms=20,
        seconds=0.25,
        as_of=AT_MS,
        late=3,
    )
    status.add(batch, now_ms=AT_MS)
    status.enter(state, now_ms=AT_MS, error=error)


def ask(layout: PipelineLayout, *more: str) -> Result:
    return CliRunner().invoke(main, ["pipeline", "status", "--data", str(layout.data), *more])


def test_a_data_folder_without_a_pipeline_says_how_to_start_one(layout: PipelineLayout) -> None:
    answer = ask(layout)
    assert answer.exit_code == 1
    assert f"barycenter pipeline run --data {layout.data}" in answer.output
    assert json.loads(ask(layout, "--json").output)["state"] == "none"


@pytest.mark.usefixtures("held")
def test_a_running_pipeline_tells_its_figures(layout: PipelineLayout) -> None:
    write_status(layout, "running")
    answer = ask(layout)
    assert answer.exit_code == 0
    assert f"is running (process {os.getpid()})" in answer.output
    for part in (
        "1.50 s",
        "12 reports",
        "3 reports came late",
        "2 reports left out",
        str(layout.quarantine),
    ):
        assert part in answer.output
    document = json.loads(ask(layout, "--json").output)
    assert (document["state"], document["alive"], document["lagMsP99"]) == ("running", True, 1500)


def test_what_came_too_late_is_shown_with_the_time_that_it_leaves_wrong(layout: PipelineLayout) -> None:
    """A process later, too; the counts are those of the one that met it."""
    due = RefoldDue(since=AT_MS - 60_000, until=AT_MS, reports=3, decisions=1)
    status = StatusFile(layout, pid=os.getpid())
    late = dataclasses.replace(batch_of_one_report(), overdue=2, overdue_decisions=1, refold=due)
    status.add(late, now_ms=AT_MS)
    status.enter("stopped", now_ms=AT_MS)
    answer = ask(layout)
    assert answer.exit_code == 0
    assert "2 reports and 1 decision came after the tables of their time were final" in answer.output
    assert "from 2026-09-21 14:12:20 UTC to 2026-09-21 14:13:20 UTC lack 3 reports and 1 decision" in answer.output
    document = json.loads(ask(layout, "--json").output)
    assert (document["overdueReports"], document["overdueDecisions"]) == (2, 1)
    assert document["refold"] == {"since": AT_MS - 60_000, "until": AT_MS, "reports": 3, "decisions": 1}
    again = StatusFile(layout, pid=os.getpid())
    again.remember(due, held=4)
    again.enter("stopped", now_ms=AT_MS)
    document = json.loads(ask(layout, "--json").output)
    assert (document["overdueReports"], document["heldReports"], document["refold"]["reports"]) == (0, 4, 3)


def test_a_killed_pipeline_is_not_said_to_run(layout: PipelineLayout) -> None:
    """Its last status is `running`; no process holds the data folder, though another process has its number by now."""
    layout.lock.touch()
    write_status(layout, "running")
    answer = ask(layout)
    assert answer.exit_code == 1
    assert "was killed or crashed" in answer.output
    assert "it continues" in answer.output


@pytest.mark.usefixtures("held")
def test_a_pid_that_is_gone_is_dead_whoever_holds_the_folder(layout: PipelineLayout) -> None:
    write_status(layout, "retrying", pid=2**22 + 1)
    assert json.loads(ask(layout, "--json").output)["state"] == "killed"


@pytest.mark.usefixtures("held")
def test_steady_load_does_not_look_like_a_dead_pipeline(layout: PipelineLayout) -> None:
    """Its last report is ten minutes old; it looked for reports since, and found none."""
    status = StatusFile(layout, pid=os.getpid())
    status.add(batch_of_one_report(), now_ms=AT_MS)
    status.look(now_ms=AT_MS + 600_000)
    answer = ask(layout)
    assert answer.exit_code == 0
    looked = next(line for line in answer.output.splitlines() if line.startswith("last look"))
    newest = next(line for line in answer.output.splitlines() if line.startswith("newest report"))
    assert datetime.fromtimestamp(AT_MS / 1000 + 600, UTC).strftime("%Y-%m-%d %H:%M:%S UTC") in looked
    assert "load is steady" in newest
    document = json.loads(ask(layout, "--json").output)
    assert document["lookedAt"] - document["asOf"] == 600_000


def test_a_stopped_pipeline_is_not_said_to_have_steady_load(layout: PipelineLayout) -> None:
    status = StatusFile(layout, pid=os.getpid())
    status.add(batch_of_one_report(), now_ms=AT_MS)
    status.look(now_ms=AT_MS + 600_000)
    layout.lock.touch()
    assert "load is steady" not in ask(layout).output


@pytest.mark.parametrize("is_held_by_the_new_one", [False, True])
def test_a_pipeline_that_is_started_again_is_said_to_be_by_whom_and_since_when(
    layout: PipelineLayout, is_held_by_the_new_one: bool
) -> None:
    """Before the next process has the folder, and after, while it starts Spark."""
    directory = DataDirectory(layout.data)
    with ExitStack() as held:
        held.enter_context(DataDirectoryLock(directory))
        write_status(layout, "starting" if is_held_by_the_new_one else "running")
        if is_held_by_the_new_one:
            fcntl.flock(held.enter_context(layout.lock.open("w")), fcntl.LOCK_EX)
        RestartNote(directory).write(restart())
        answer = ask(layout)
        document = json.loads(ask(layout, "--json").output)
    assert answer.exit_code == 1
    assert "killed or crashed" not in answer.output
    assert f"started again by `barycenter standalone` (process {os.getpid()}) since 2026-09-21" in answer.output
    assert "attempt 2" in answer.output
    assert "it ended with code -9" in answer.output
    assert (document["state"], document["restart"]["pid"]) == ("restarting", os.getpid())


def test_a_note_of_a_restart_counts_as_long_as_its_writer_runs_the_cluster(layout: PipelineLayout) -> None:
    directory = DataDirectory(layout.data)
    write_status(layout, "running")
    with DataDirectoryLock(directory):
        RestartNote(directory).write(restart())
    assert json.loads(ask(layout, "--json").output)["state"] == "killed"
    with DataDirectoryLock(directory):
        RestartNote(directory).remove()
        assert json.loads(ask(layout, "--json").output)["state"] == "killed"


@pytest.mark.usefixtures("held")
def test_a_pipeline_that_is_back_is_running_though_the_note_is_still_there(layout: PipelineLayout) -> None:
    directory = DataDirectory(layout.data)
    with DataDirectoryLock(directory):
        RestartNote(directory).write(restart())
        write_status(layout, "running")
        assert json.loads(ask(layout, "--json").output)["state"] == "running"


@pytest.mark.parametrize(("state", "code"), [("stopped", 0), ("failed", 1)])
def test_an_end_in_order_and_a_failure_differ(layout: PipelineLayout, state: str, code: int) -> None:
    write_status(layout, state, error="OSError: no space left on device" if code else None)
    answer = ask(layout)
    assert answer.exit_code == code
    assert ("no space left on device" in answer.output) == bool(code)


def test_a_setting_of_spark_that_is_none_is_refused_without_being_shown(tmp_path: Path) -> None:
    """It may be a secret; the program ends before Spark starts."""
    for setting in ("secret", "fs.s3a.secret.key=secret"):
        answer = CliRunner().invoke(main, ["pipeline", "run", "--data", str(tmp_path), "--conf", setting])
        assert answer.exit_code == 2
        assert "not KEY=VALUE" in answer.output
        assert "secret" not in answer.output


def test_a_master_that_spark_does_not_know_is_refused_before_spark_starts(tmp_path: Path) -> None:
    answer = CliRunner().invoke(main, ["pipeline", "run", "--data", str(tmp_path), "--master", "http://host:7077"])
    assert answer.exit_code == 2
    assert "is not a Spark master" in answer.output


def test_an_event_without_words_of_its_own_is_told_by_its_fields() -> None:
    event = {"event": "pipeline_house_kept", "level": "info", "timestamp": "2026-11-21T10:57:43Z", "merged_files": 32}
    assert person_renderer(None, "info", event) == "10:57:43  pipeline house kept merged_files=32"


def test_a_run_that_falls_short_says_of_what_in_words() -> None:
    event = {"event": "pipeline_tables_fall_short", "level": "warning", "late_reports": 3, "held_reports": 1_200}
    line = person_renderer(None, "warning", event)
    assert "3 late reports, 1,200 held reports; `barycenter pipeline status` shows details" in line


def test_what_files_and_stores_say_steers_no_terminal() -> None:
    line = person_renderer(
        None, "", {"event": "pipeline_cannot_run", "reason": "no \x1b[2Jfile\n12:00:00  all is well"}
    )
    assert line.endswith("no �[2Jfile 12:00:00  all is well")
