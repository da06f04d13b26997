"""What passes between a SQLite store's two sides: operations to the worker, what it tells to the event loop."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from pulsar_barycenter.metadata.errors import MetadataError
from pulsar_barycenter.metadata.sqlite.sqlite_file import SqliteFile
from pulsar_barycenter.metadata.store import Notification, SessionEvent


@dataclass(eq=False, slots=True)
class Operation:
    """What a caller wants done in the file, under the session that was current when it was asked."""

    name: str
    path: str
    session: int | None
    is_write: bool
    run: Callable[[SqliteFile], Any]
    reply: Any
    """For the caller's side; the worker only hands it back."""


Outcome: TypeAlias = tuple[Operation, Any, MetadataError | None]
"""An operation, its result, and why it failed: one of the last two is None."""


class Audience(Protocol):
    """Who hears what happens. Called on the event loop, in order."""

    def hear_events(self, events: list[SessionEvent]) -> None: ...

    def hear_session(self, session: int | None) -> None:
        """The session that operations belong to from now on; None while there is none."""
        ...

    def hear_changes(self, changes: list[Notification]) -> None: ...

    def hear_doubt(self) -> None:
        """Changes were made that cannot be told yet; what is cached may be older than them."""
        ...

    def hear_outcomes(self, outcomes: list[Outcome]) -> None: ...

    def hear_end(self) -> None:
        """Nothing more will be told, and operations without an outcome will get none."""
        ...
