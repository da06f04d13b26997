"""The loaded topics of bundles, as ownership uses them; closing the topics of a bundle has a time limit.

If a topic is not closed in time, the fence of its ledger protects it: the next owner can write, this broker cannot.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Protocol

import structlog

from pulsar_barycenter.broker.cluster.service_urls import NextOwner
from pulsar_barycenter.naming.bundle import Bundle

log = structlog.get_logger(__name__)


class Topics(Protocol):
    """Those methods of the registry of loaded topics (`TopicRegistry`) that ownership calls."""

    async def close_bundle(self, bundle: Bundle, *, reason: str) -> int: ...

    async def begin_transfer(self, bundle: Bundle, *, reason: str) -> int:
        """Close the topics of a bundle that is transferred, but keep their clients connected; return the number of
        topics.
        """
        ...

    async def finish_transfer(self, bundle: Bundle, owner: NextOwner | None, *, reason: str) -> int:
        """Send the clients of a transferred bundle to `owner`, the next owner, or disconnect them if it is None; return
        the number of topics.
        """
        ...

    def written_topics(self, bundle: Bundle) -> list[str]:
        """Return the bundle's topics that have producers, busiest first."""
        ...

    def prepare(self, bundle: Bundle, topics: Iterable[str], epoch: int, *, are_closed: bool) -> None:
        """Prepare in the background to open topics, because this broker will own the bundle under `epoch`.

        If `are_closed`, the former owner has closed the topics, and they are opened. Otherwise it still has them open,
        so only the ledgers for new entries are created.
        """
        ...

    def refresh_bundles(self) -> object: ...


class NoTopics:
    """Implements `Topics` for a broker that has no loaded topics."""

    async def close_bundle(self, bundle: Bundle, *, reason: str) -> int:
        return 0

    async def begin_transfer(self, bundle: Bundle, *, reason: str) -> int:
        return 0

    async def finish_transfer(self, bundle: Bundle, owner: NextOwner | None, *, reason: str) -> int:
        return 0

    def written_topics(self, bundle: Bundle) -> list[str]:
        return []

    def prepare(self, bundle: Bundle, topics: Iterable[str], epoch: int, *, are_closed: bool) -> None:
        return

    def refresh_bundles(self) -> object:
        return None


class BundleTopics:
    """Closes the topics of bundles within a time limit. `timeout_s` returns the limit in seconds; it is called for each
    bundle.
    """

    def __init__(self, timeout_s: Callable[[], float]) -> None:
        self._timeout_s = timeout_s
        self._topics: Topics = NoTopics()

    def attach(self, topics: Topics) -> None:
        self._topics = topics

    async def close(self, bundle: Bundle, reason: str) -> int:
        """Close the bundle's topics and detach their clients; return the number of topics. After an error, or if the
        time limit ends first, this is logged, and the result is 0; some topics may still be open.
        """
        return await self._in_time(bundle, self._topics.close_bundle(bundle, reason=reason))

    async def begin_transfer(self, bundle: Bundle, reason: str) -> int:
        """Close the bundle's topics but keep their clients connected; return the number of topics. After an error or at
        the time limit, log this and return 0.
        """
        return await self._in_time(bundle, self._topics.begin_transfer(bundle, reason=reason))

    async def finish_transfer(self, bundle: Bundle, owner: NextOwner | None, reason: str) -> int:
        """Send the bundle's clients to `owner`, the next owner, or disconnect them if it is None; return the number of
        topics. After an error or at the time limit, log this and return 0.
        """
        return await self._in_time(bundle, self._topics.finish_transfer(bundle, owner, reason=reason))

    def written(self, bundle: Bundle) -> list[str]:
        """Return the bundle's topics that have producers, busiest first."""
        return self._topics.written_topics(bundle)

    def prepare(self, bundle: Bundle, topics: Iterable[str], epoch: int, *, are_closed: bool) -> None:
        """Prepare in the background to open topics for this broker's next term as owner of the bundle; see
        `Topics.prepare`.
        """
        self._topics.prepare(bundle, topics, epoch, are_closed=are_closed)

    def refresh_bundles(self) -> None:
        """After a split, assign each loaded topic to the term of its new bundle."""
        self._topics.refresh_bundles()

    async def _in_time(self, bundle: Bundle, closing: Coroutine[Any, Any, int]) -> int:
        try:
            async with asyncio.timeout(self._timeout_s()):
                return await closing
        except TimeoutError:
            log.warning("bundle_close_timed_out", bundle=str(bundle))
        except Exception:
            log.exception("bundle_close_failed", bundle=str(bundle))
        return 0
