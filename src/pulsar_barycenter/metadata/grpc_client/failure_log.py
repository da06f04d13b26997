"""Logs a failure once, however often it is repeated."""

import structlog

from pulsar_barycenter.metadata.errors import MetadataError

log = structlog.get_logger(__name__)


class FailureLog:
    """The operations whose last attempt failed. The first failure is logged, and the first success after it."""

    def __init__(self) -> None:
        self._known: set[str] = set()

    def failed(self, what: str, server: str, error: MetadataError) -> None:
        """Record a failure of the operation `what`; log it if its last attempt succeeded."""
        if what not in self._known:
            self._known.add(what)
            log.warning("metadata_store_trouble", what=what, server=server, error=str(error))

    def recovered(self, what: str, server: str) -> None:
        """Record a success of the operation `what`; log it if its last attempt failed."""
        if what in self._known:
            self._known.remove(what)
            log.info("metadata_store_trouble_over", what=what, server=server)
