"""The objects that the event loop and the worker thread of a SQLite store exchange: operations and events."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from pulsar_barycenter.metadata.errors import MetadataError
from pulsar_barycenter.metadata.sqlite.sqlite_file import SqliteFile
from pulsar_barycenter.metadata.store import Notification, SessionEvent


@dataclass(eq=False, slots=True)
class Operation:
    """An operation on the file that a caller requests, in the session that was current at the call."""

    name: str
    path: str
    session: int | None
    is_write: bool
    run: Callable[[SqliteFile], Any]
    reply: Any
    """A value of the event loop's side. The worker does not use it, and returns it with the result."""


Outcome: TypeAlias = tuple[Operation, Any, MetadataError | None]
"""An operation, its result, and its error. Result or error is None."""


class WorkerListener(Protocol):
    """The receiver of the worker's events. Its methods are called on the event loop, in the order of the events."""

    def on_events(self, events: list[SessionEvent]) -> None: ...

    def on_session(self, session: int | None) -> None:
        """Called when the session changes. The next operations run in `session`; None while there is no session."""
        ...

    def on_changes(self, changes: list[Notification]) -> None: ...

    def on_unknown_changes(self) -> None:
        """Called when other clients have changed keys, and `on_changes` has not been called with these changes yet.
        Until it is, cached values may be outdated.
        """
        ...

    def on_outcomes(self, outcomes: list[Outcome]) -> None: ...

    def on_end(self) -> None:
        """Called once, as the last call. Operations without an outcome will not get one any more."""
        ...
