"""The objects that the event loop and the worker thread of a SQLite store exchange: operations and events."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from pulsar_barycenter.metadata.errors import MetadataError
from pulsar_barycenter.metadata.sqlite.sqlite_file import SqliteFile
from pulsar_barycenter.metadata.store import Notification, SessionEvent


@dataclass(eq=False, slots=True)
class Operation:
    """A read or write of the SQLite file that a caller has requested. `session` is the session that was current at that
    time; a write is executed only in this session.
    """

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
    """Receives the events and results of the worker thread. Its methods are called on the event loop, in the order in
    which the worker reported them.
    """

    def on_events(self, events: list[SessionEvent]) -> None: ...

    def on_session(self, session: int | None) -> None:
        """Called when another session was opened, or when the session was lost. `session` is the current session; None
        while there is none.
        """
        ...

    def on_changes(self, changes: list[Notification]) -> None: ...

    def on_unknown_changes(self) -> None:
        """Called when keys may have been changed, but the worker could not read the changes. Until `on_changes` is
        called with them, values in caches may be outdated.
        """
        ...

    def on_outcomes(self, outcomes: list[Outcome]) -> None: ...

    def on_end(self) -> None:
        """Called once, after all other calls, when the worker has ended. Operations for which `on_outcomes` was not
        called will get no outcome.
        """
        ...
