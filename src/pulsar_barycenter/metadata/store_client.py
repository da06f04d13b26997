"""The common part of the clients of metadata stores: the listeners, the current session, and whether the store is
closed.
"""

from collections.abc import Callable

from pulsar_barycenter.metadata.clock import Clock
from pulsar_barycenter.metadata.errors import SessionLostError, StoreClosedError
from pulsar_barycenter.metadata.listeners import StoreListeners
from pulsar_barycenter.metadata.store import Notification, SessionEvent, check_path


class StoreClient:
    """The base class of the kinds of `MetadataStore`, with the methods and the state that are the same for
    all of them.
    """

    def __init__(self, clock: Clock, session: int | None) -> None:
        self._clock = clock
        self._session = session
        self._listeners = StoreListeners()
        self._closed = False

    @property
    def session(self) -> int | None:
        """The id of this client's session with the store; None while there is none."""
        return self._session

    def add_listener(self, listener: Callable[[Notification], None]) -> Callable[[], None]:
        return self._listeners.add_listener(listener)

    def add_session_listener(self, listener: Callable[[SessionEvent], None]) -> Callable[[], None]:
        return self._listeners.add_session_listener(listener)

    def add_invalidator(self, invalidate: Callable[[Notification | None], None]) -> Callable[[], None]:
        return self._listeners.add_invalidator(invalidate)

    def _writing(self, path: str) -> int:
        """Check that the key `path` can be written now, and return the current session, in which to write it.

        Raises:
            InvalidPathError, StoreClosedError: the path is not valid, or the store is closed.
            SessionLostError: there is no session now.
        """
        self._check_open(path)
        if self._session is None:
            raise SessionLostError(path, "the session has ended, and no other session is open yet. Try again.")
        return self._session

    def _check_open(self, path: str) -> None:
        if self._closed:
            raise StoreClosedError(path)
        check_path(path)
