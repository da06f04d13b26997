"""What belongs to the whole process and outlives a test that changes it: the guard of tests/conftest.py compares it."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

import structlog

_STATUS: Final = Path("/proc/self/status")
_OF_LIBRARIES: Final = ("PYTEST_", "SPARK_", "PYSPARK_", "JAVA_HOME", "COLUMNS", "LINES")
"""Variables that pytest sets for each test, and those that a Spark session leaves to its launcher for good."""


@dataclass(frozen=True, slots=True)
class ProcessState:
    """Values of the process, to be compared before and after a test."""

    log: tuple[object, ...]
    """Whether structlog is configured, and with which loggers; processors are compared one by one."""
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
        classes = (config["wrapper_class"], config["logger_factory"], config["context_class"])
        return cls(
            log=(structlog.is_configured(), *classes, *config["processors"]),
            handlers=tuple(root.handlers),
            level=root.level,
            disabled_level=logging.root.manager.disable,
            environment={name: value for name, value in os.environ.items() if not name.startswith(_OF_LIBRARIES)},
            folder=_folder(),
            umask=_umask(),
            signals={int(number): signal.getsignal(number) for number in _WATCHED},
        )

    def changes(self, after: ProcessState) -> list[str]:
        """Return a sentence for each part that differs in `after`."""
        return [
            f"{field.name} was {_different(old, new)} and is {_different(new, old)}"
            for field in fields(self)
            if (old := getattr(self, field.name)) != (new := getattr(after, field.name))
        ]


_WATCHED: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD, signal.SIGPIPE, signal.SIGWINCH)


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
    """Give structlog and the root logger back what they had, and structlog also the state of not being configured.

    `structlog.configure(**structlog.get_config())` alone would leave it configured, and what asks for that, such as a
    broker in the process of a test, would then write no log of its own.
    """
    root, is_configured, config = logging.getLogger(), structlog.is_configured(), structlog.get_config()
    handlers, level = root.handlers[:], root.level
    try:
        yield
    finally:
        structlog.reset_defaults()
        if is_configured:
            structlog.configure(**config)
        root.handlers[:] = handlers
        root.setLevel(level)
