"""Finds or assigns the owner of a bundle in clusters that own bundles by locks.

The broker that gets a look-up of a bundle without an owner answers:

| the broker                                               | its answer                                               |
|----------------------------------------------------------|----------------------------------------------------------|
| any; heartbeat namespace, or a live SLA-monitor one      | the broker in the name of the namespace                  |
| any; the look-up is `authoritative`                      | itself: a leader has chosen it                           |
| has a former load manager (`load_manager_migration`)     | a broker with the newest one: ask there                  |
| leads, or its load manager is not centralized            | the choice of its load manager (authoritative)           |
| does not lead; the leader is registered                  | the leader (not authoritative): ask there                |
| does not lead; there is no leader, or not registered     | the choice of its own load manager (authoritative)       |

If the answer is the broker itself, it acquires the bundle and can serve it before it answers. If several brokers decide
at once, the lock decides, and the others answer with its holder. An attempt waits only for the store: the caller waits
while a bundle is in transit.

Source: Pulsar's `NamespaceService.searchForCandidateBroker`.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Literal, Protocol

import structlog

from pulsar_barycenter.broker.cluster.leadership import Leadership
from pulsar_barycenter.broker.cluster.lookup_answers import (
    BundleNotAcquiredError,
    BundleNotFoundError,
    BundleUnloadingError,
    LookupFailedError,
    LookupNotReadyError,
    Owner,
)
from pulsar_barycenter.broker.cluster.registration import Registration
from pulsar_barycenter.broker.cluster.service_urls import ServiceUrls
from pulsar_barycenter.broker.load_manager.contract import LoadManager
from pulsar_barycenter.broker.ownership.contract import InTransit, Ownership
from pulsar_barycenter.metadata.errors import LockBusyError, MetadataError
from pulsar_barycenter.naming.bundle import Bundle
from pulsar_barycenter.naming.namespace import heartbeat_broker, sla_monitor_broker

log = structlog.get_logger(__name__)

AFFINITY_LIFE_S: Final = 60.0
_WARN_EVERY_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class Candidate:
    """An answer of `Search.attempt`: the look-up is redirected to the broker with `urls`.

    `authoritative`: that broker must answer the look-up itself, and not redirect it.
    """

    urls: ServiceUrls
    authoritative: bool


@dataclass(frozen=True, slots=True)
class Wait:
    """An answer of `Search.attempt`: the owner is not known or does not serve the bundle yet. Try again after a change:
    of the bundle's ownership if `on` is "bundle", of the list of registered brokers if it is "brokers".

    `error` is the error to raise if the time limit of the look-up ends before an owner is found.
    """

    on: Literal["bundle", "brokers"]
    error: LookupFailedError | MetadataError


class Affinities:
    """The next owners that an administrator or the leader's load shedding has chosen for bundles.

    The leader keeps them in memory. An entry is valid until a broker acquires the bundle, at most for AFFINITY_LIFE_S
    seconds. While an entry is valid, all look-ups of its bundle are sent to the broker in the entry.
    """

    def __init__(self) -> None:
        self._wanted: dict[Bundle, tuple[str, float]] = {}

    def set(self, bundle: Bundle, broker_id: str) -> None:
        self._wanted[bundle] = (broker_id, asyncio.get_running_loop().time() + AFFINITY_LIFE_S)

    def get(self, bundle: Bundle) -> str | None:
        wanted = self._wanted.get(bundle)
        if wanted is None:
            return None
        if wanted[1] < asyncio.get_running_loop().time():
            del self._wanted[bundle]
            return None
        return wanted[0]

    def drop(self, bundle: Bundle) -> None:
        self._wanted.pop(bundle, None)


class Search(Protocol):
    """Finds or assigns the owner of a bundle."""

    def set_identity(self, urls: ServiceUrls) -> None:
        """Set the URLs of this broker, when its ports are known."""
        ...

    async def attempt(self, bundle: Bundle, *, authoritative: bool) -> Owner | Candidate | Wait:
        """Return the owner; or, as `Candidate`, the broker to redirect the look-up to; or, as `Wait`, the change after
        which to try again.

        `authoritative`: the look-up was redirected here by a broker that decided that this broker has to answer it, so
        it is not redirected again.

        Raises:
            BundleNotFoundError: the range is not, or no longer, a bundle of its namespace.
            MetadataError: the store did not answer.
        """
        ...


class OwnerSearch:
    """Makes attempts to find or assign the owner of a bundle, by ownership locks. Implements `Search`."""

    def __init__(
        self,
        ownership: Ownership,
        registration: Registration,
        leadership: Leadership,
        load_manager: Callable[[], LoadManager],
        affinities: Affinities,
        elsewhere: Callable[[Bundle], Awaitable["Candidate | None"]],
    ) -> None:
        """`load_manager` returns the present load manager. `elsewhere` is called for a bundle without an owner, and
        returns the broker to which the look-up is redirected because brokers with this load manager may not choose
        owners; None: they may. See `LoadManagerMigration.candidate`.
        """
        self._ownership = ownership
        self._registration = registration
        self._leadership = leadership
        self._load_manager = load_manager
        self._urls: ServiceUrls | None = None
        self._warned_at = float("-inf")
        self._affinities = affinities
        self._elsewhere = elsewhere

    def set_identity(self, urls: ServiceUrls) -> None:
        self._urls = urls

    async def attempt(self, bundle: Bundle, *, authoritative: bool) -> Owner | Candidate | Wait:
        """Return the owner; or, as `Candidate`, the broker to redirect the look-up to; or, as `Wait`, the change after
        which to try again. See `Search.attempt`.

        Raises:
            BundleNotFoundError: the range is not, or no longer, a bundle of its namespace.
            MetadataError: the store did not answer.
        """
        owner = await self._ownership.owner_of(bundle)
        if isinstance(owner, Owner):
            return owner
        if isinstance(owner, InTransit):
            return Wait("bundle", BundleUnloadingError(bundle, f"is in transit at broker {owner.broker_id}"))
        if self._urls is None or not self._leadership.is_started:
            return Wait("brokers", LookupNotReadyError("The leader election has not yet been completed!"))
        if not authoritative and (redirect := await self._elsewhere(bundle)) is not None:
            return redirect
        me = self._urls.broker_id
        broker_id, authoritative_redirect = await self._candidate(bundle, me, authoritative=authoritative)
        if broker_id is None:
            return Wait("brokers", BundleNotAcquiredError(bundle, "no broker is available that could own the bundle"))
        if broker_id == me:
            return await self._acquire(bundle)
        urls = await self._registration.urls_of(broker_id)
        if urls is None:
            error = BundleNotAcquiredError(bundle, f"broker {broker_id} was chosen as owner, but is not registered now")
            return Wait("brokers", error)
        return Candidate(urls, authoritative_redirect)

    async def _candidate(self, bundle: Bundle, me: str, *, authoritative: bool) -> tuple[str | None, bool]:
        """Return two values for a bundle without an owner: the id of the broker that should own the bundle, or, if the
        leader chooses owners, of the leader (None: no broker qualifies); and whether a look-up that is redirected to
        this broker is authoritative, so that it answers the look-up itself.
        """
        leads = self._leadership.is_leader()
        bound = heartbeat_broker(bundle.namespace)
        if bound is None:
            bound = sla_monitor_broker(bundle.namespace)
            if bound is not None and bound not in self._load_manager().available_brokers():
                bound = None
        if bound is not None:
            return bound, leads
        if authoritative:
            return me, leads
        leader = None if leads else await self._leader_to_ask()
        if leader is None or leader == me:
            return await self._choose(bundle), True
        return leader, False

    async def _leader_to_ask(self) -> str | None:
        """Return the id of the leader if the leader has to choose the owner. None if this broker has to choose it:
        because the load manager lets every broker choose, or because there is no leader.
        """
        if not self._load_manager().is_centralized:
            return None
        leader = await self._leadership.current_leader()
        if leader is not None and leader.broker_id in self._load_manager().available_brokers():
            return leader.broker_id
        self._warn_without_leader(None if leader is None else leader.broker_id)
        return None

    def _warn_without_leader(self, leader: str | None) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._warned_at >= _WARN_EVERY_S:
            self._warned_at = now
            log.warning("deciding_without_leader", leader=leader)

    async def _choose(self, bundle: Bundle) -> str | None:
        wanted = self._affinities.get(bundle)
        if wanted is not None and wanted in self._load_manager().available_brokers():
            return wanted
        try:
            placement = await self._load_manager().select_broker(bundle)
        except MetadataError:
            raise
        except Exception as error:
            log.exception("placement_failed", bundle=str(bundle))
            raise BundleNotAcquiredError(bundle, f"no owner could be chosen for the bundle: {error}") from error
        return None if placement is None else placement.broker

    async def _acquire(self, bundle: Bundle) -> Owner | Wait:
        try:
            return await self._ownership.acquire(bundle, reason="lookup")
        except LockBusyError:
            return Wait("bundle", BundleNotAcquiredError(bundle, "another broker acquired the bundle first"))
        except BundleNotFoundError:
            raise
        except BundleNotAcquiredError as error:
            return Wait("bundle", error)
