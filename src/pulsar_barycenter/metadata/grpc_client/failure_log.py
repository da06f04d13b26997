"""Logs a failure once, however often it is repeated."""

import structlog

from pulsar_barycenter.metadata.errors import MetadataError

log = structlog.get_logger(__name__)


class FailureLog:
    """Logs the first failure of an operation, and then its first success after that. Repeated failures in between are
    not logged.
    """

    def __init__(self) -> None:
        self._known: set[str] = set()

    def failed(self, what: str, server: str, error: MetadataError) -> None:
        """Record that the operation `what` failed on the server `server`. Log it, unless the previous attempt of this
        operation failed too, on this or another server.
        """
        if what not in self._known:
            self._known.add(what)
            log.warning("metadata_store_trouble", what=what, server=server, error=str(error))

    def recovered(self, what: str, server: str) -> None:
        """Record that the operation `what` succeeded on the server `server`. Log it if the previous attempt of this
        operation failed.
        """
        if what in self._known:
            self._known.remove(what)
            log.info("metadata_store_trouble_over", what=what, server=server)
