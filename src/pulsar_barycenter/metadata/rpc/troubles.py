"""What does not work, told once."""

import structlog

from pulsar_barycenter.metadata.errors import MetadataError

log = structlog.get_logger(__name__)


class Troubles:
    """What failed when it was tried last: logged once, however often it is tried, and once when it works again."""

    def __init__(self) -> None:
        self._known: set[str] = set()

    def failing(self, what: str, server: str, error: MetadataError) -> None:
        if what not in self._known:
            self._known.add(what)
            log.warning("metadata_store_trouble", what=what, server=server, error=str(error))

    def working(self, what: str, server: str) -> None:
        if what in self._known:
            self._known.remove(what)
            log.info("metadata_store_trouble_over", what=what, server=server)
