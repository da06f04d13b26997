"""What the two sides of a SQLite store exchange: operations for the worker, events for the event loop."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from pulsar_barycenter.metadata.errors import MetadataError
from pulsar_barycenter.metadata.sqlite.sqlite_file import SqliteFile
from pulsar_barycenter.metadata.store import Notification, SessionEvent


@dataclass(eq=False, slots=True)
class Operation:
    """An operation of a caller on the file, in the session that was current at the call."""

    name: str
    path: str
    session: int | None
    is_write: bool
    run: Callable[[SqliteFile], Any]
    reply: Any
    """Belongs to the caller's side; the worker only returns it."""


Outcome: TypeAlias = tuple[Operation, Any, MetadataError | None]
"""An operation, its result, and its error. Result or error is None."""


class WorkerListener(Protocol):
    """Receives the worker's events. Called on the event loop, in order."""

    def on_events(self, events: list[SessionEvent]) -> None: ...

    def on_session(self, session: int | None) -> None:
        """Called with the session for the operations from now on; None while there is none."""
        ...

    def on_changes(self, changes: list[Notification]) -> None: ...

    def on_unknown_changes(self) -> None:
        """Called after changes that cannot be reported yet, so cached values may be outdated."""
        ...

    def on_outcomes(self, outcomes: list[Outcome]) -> None: ...

    def on_end(self) -> None:
        """Called once, as the last call. Operations that have no outcome by then will get none."""
        ...
