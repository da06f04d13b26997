"""Logs a failure once, however often it is repeated."""

import structlog

from pulsar_barycenter.metadata.errors import MetadataError

log = structlog.get_logger(__name__)


class FailureLog:
    """Keeps which operations failed at their last attempt. Only the first failure is logged, and the first success
    after it.
    """

    def __init__(self) -> None:
        self._known: set[str] = set()

    def failed(self, what: str, server: str, error: MetadataError) -> None:
        """Record that the operation `what` failed. The failure is logged unless the last attempt of this operation
        failed too, on whatever server.
        """
        if what not in self._known:
            self._known.add(what)
            log.warning("metadata_store_trouble", what=what, server=server, error=str(error))

    def recovered(self, what: str, server: str) -> None:
        """Record that the operation `what` succeeded. This is logged if its last attempt failed."""
        if what in self._known:
            self._known.remove(what)
            log.info("metadata_store_trouble_over", what=what, server=server)
