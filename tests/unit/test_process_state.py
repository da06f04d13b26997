"""The guard of every test: what a test leaves changed is named, and given back."""

import logging
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import structlog

from pulsar_barycenter.run.process_log import configure_logging
from support.process_state import ProcessState, kept_log

CHANGES: dict[str, Callable[[], object]] = {
    "log": lambda: structlog.configure(processors=[structlog.processors.JSONRenderer()]),
    "handlers": lambda: logging.getLogger().addHandler(logging.NullHandler()),
    "level": lambda: logging.getLogger().setLevel(logging.CRITICAL),
    "disabled_level": lambda: logging.disable(logging.INFO),
    "environment": lambda: os.environ.update(LEFT_BY_A_TEST="1"),
    "folder": lambda: os.chdir("/"),
    "umask": lambda: os.umask(0o137),
    "signals": lambda: signal.signal(signal.SIGHUP, lambda *_: None),
}


@pytest.fixture
def before() -> Iterator[ProcessState]:
    before = ProcessState.now()
    yield before
    before.give_back()


@pytest.mark.parametrize("name", CHANGES)
def test_what_a_test_changes_is_named_and_given_back(name: str, before: ProcessState) -> None:
    assert before.changes(ProcessState.now()) == []
    CHANGES[name]()
    (change,) = before.changes(ProcessState.now())
    assert change.startswith(f"{name} was ")
    before.give_back()
    assert before.changes(ProcessState.now()) == []


def test_what_captures_events_leaves_structlog_as_if_not_configured(before: ProcessState) -> None:
    structlog.reset_defaults()
    with kept_log(), structlog.testing.capture_logs():
        assert structlog.is_configured()
    assert not structlog.is_configured()


def test_of_the_environment_only_what_differs_is_told(before: ProcessState) -> None:
    os.environ["LEFT_BY_A_TEST"] = "1"
    assert before.changes(ProcessState.now()) == ["environment was {} and is {'LEFT_BY_A_TEST': '1'}"]


def test_a_folder_that_was_deleted_is_a_change(before: ProcessState, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    os.chdir(gone)
    gone.rmdir()
    assert [change for change in before.changes(ProcessState.now()) if change.startswith("folder")]


def test_a_command_that_sets_the_log_of_its_process_leaves_nothing_and_no_logger_remembers_it(
    before: ProcessState, capsys: pytest.CaptureFixture[str]
) -> None:
    log = structlog.get_logger("of a module")
    with kept_log():
        configure_logging(as_json=True)
        log.info("within")
    assert before.changes(ProcessState.now()) == []
    log.info("after")
    out, err = capsys.readouterr()
    assert ("within" in err, "after" in err, "after" in out) == (True, False, True)
