"""What belongs to the whole process and outlives a test that changes it; tests/conftest.py compares it at each test."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from functools import wraps
from pathlib import Path
from typing import Any, Final

import structlog

_STATUS: Final = Path("/proc/self/status")
_OF_LIBRARIES: Final = ("PYTEST_", "SPARK_", "PYSPARK_", "JAVA_HOME", "COLUMNS", "LINES")
"""Variables that pytest sets for each test, and those that a Spark session leaves to its launcher for good."""

_NOT_COMPARED: Final = {"compared": False}


@dataclass(frozen=True, slots=True)
class ProcessState:
    """Values of the process, to be compared before and after a test."""

    is_log_configured: bool = field(metadata=_NOT_COMPARED)
    log: dict[str, Any]
    handlers: tuple[logging.Handler, ...]
    level: int
    disabled_level: int
    environment: dict[str, str]
    folder: str
    umask: str
    signals: dict[int, Any]

    @classmethod
    def now(cls) -> ProcessState:
        """Return the state of this process. The folder is empty if it was deleted; the umask is, without /proc."""
        root, config = logging.getLogger(), structlog.get_config()
        return cls(
            is_log_configured=structlog.is_configured(),
            log=config | {"processors": list(config["processors"])},
            handlers=tuple(root.handlers),
            level=root.level,
            disabled_level=logging.root.manager.disable,
            environment={name: value for name, value in os.environ.items() if not name.startswith(_OF_LIBRARIES)},
            folder=_folder(),
            umask=_umask(),
            signals={int(number): _handler(number) for number in _WATCHED},
        )

    def changes(self, after: ProcessState) -> list[str]:
        """Return a sentence for each part that differs in `after`."""
        return [
            f"{part.name} was {_different(old, new)} and is {_different(new, old)}"
            for part in fields(self)
            if part.metadata != _NOT_COMPARED
            and (old := getattr(self, part.name)) != (new := getattr(after, part.name))
        ]

    def give_log_back(self) -> None:
        """Configure structlog as it was. If it was not, it is not: a broker in a test process, which asks for that,
        writes its own log. `structlog.testing.capture_logs` leaves it configured, with the values it found."""
        structlog.reset_defaults()
        if self.is_log_configured:
            structlog.configure(**self.log)

    def give_back(self) -> None:
        """Make the process what it was. Called in the main thread, which alone may set handlers of signals."""
        self.give_log_back()
        root = logging.getLogger()
        root.handlers[:] = self.handlers
        root.setLevel(self.level)
        logging.disable(self.disabled_level)
        for name in os.environ.keys() - self.environment.keys():
            if not name.startswith(_OF_LIBRARIES):
                del os.environ[name]
        os.environ.update(self.environment)
        if self.folder:
            os.chdir(self.folder)
        if self.umask:
            os.umask(int(self.umask, 8))
        for number, handler in self.signals.items():
            if handler is not None:  # one that Python did not set
                signal.signal(number, handler)


_WATCHED: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD, signal.SIGPIPE, signal.SIGWINCH)


def _handler(number: signal.Signals) -> Any:
    """Return the handler of a signal. A process in the background ignores SIGINT, and asyncio leaves Python's own
    handler where it had one of its own: these two count as the same."""
    found = signal.getsignal(number)
    return signal.default_int_handler if number is signal.SIGINT and found is signal.SIG_IGN else found


def _folder() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:
        return ""


def _umask() -> str:
    """Read without a change: for a moment, threads would create files with another one."""
    if not _STATUS.exists():
        return ""
    return _STATUS.read_text().partition("Umask:")[2].partition("\n")[0].strip()


def _different(value: Any, other: Any) -> Any:
    """Return what `value` has and `other` has not, of a mapping; any other value whole."""
    if not isinstance(value, dict):
        return value
    return {name: found for name, found in value.items() if name not in other or other[name] != found}


@contextmanager
def kept_log() -> Iterator[None]:
    """Give structlog and the root logger back what they had before the block."""
    before = ProcessState.now()
    root = logging.getLogger()
    try:
        yield
    finally:
        before.give_log_back()
        root.handlers[:] = before.handlers
        root.setLevel(before.level)


def let_no_logger_remember() -> None:
    """Keep the loggers of modules from the stream of the first test in which they write.

    A command that a test runs in its process configures structlog so that each logger remembers its stream. That of
    the test is closed at its end, and the next test that logs would write to it.
    """
    configure = structlog.configure

    @wraps(configure)
    def without_memory(**options: Any) -> None:
        configure(**(options | {"cache_logger_on_first_use": False}))

    structlog.configure = without_memory  # type: ignore[assignment]
