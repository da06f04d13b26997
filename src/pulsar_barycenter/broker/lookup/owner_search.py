"""Who shall own a bundle that nobody owns, and who decides that.

| the asked broker                                   | its answer                                          |
|----------------------------------------------------|-----------------------------------------------------|
| any, heartbeat or live SLA-monitor namespace       | the broker in the name                              |
| asked with `authoritative`                         | itself: some leader chose it, and is believed       |
| runs another load manager than the newest          | ask a broker of the newest one (`newest_manager`)   |
| leads, or its load manager is not centralised      | whom the load manager chooses (authoritative)       |
| follows, leader known and registered               | the leader (not authoritative): ask there           |
| follows, no leader, or one that is not registered  | whom its own load manager chooses (authoritative)   |

A broker that is to be itself acquires the bundle and can serve before it answers. Where several decide at once the
lock decides, and the loser answers with the winner. What is in transit is waited for by the caller: an attempt
never waits for anything but the store.

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
    """Another broker, to which the client is redirected."""

    urls: ServiceUrls
    authoritative: bool


@dataclass(frozen=True, slots=True)
class Wait:
    """No answer yet. Try again when `on` changed; `error` is what to say when there is no more time."""

    on: Literal["bundle", "brokers"]
    error: LookupFailedError | MetadataError


class Affinities:
    """Where an administrator or a shedder wants a bundle to go when it is assigned next.

    Kept by the leader, in memory, under the bundle's full name. An entry holds until somebody takes the bundle, so
    that all who look it up meanwhile are sent to one broker, or for AFFINITY_LIFE_S.
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
    """How an owner is found, or made."""

    def set_identity(self, urls: ServiceUrls) -> None:
        """Say under which URLs this broker is reached."""
        ...

    async def attempt(self, bundle: Bundle, *, authoritative: bool) -> Owner | Candidate | Wait:
        """Answer with the owner, with the broker to ask instead, or with what to wait for.

        Raises:
            BundleNotFoundError: the range is not a bundle (any more).
            MetadataError: the store did not answer.
        """
        ...


class OwnerSearch:
    """One attempt after the other to find, or to make, the owner of a bundle."""

    def __init__(
        self,
        ownership: Ownership,
        registration: Registration,
        leadership: Leadership,
        load_manager: Callable[[], LoadManager],
        affinities: Affinities,
        elsewhere: Callable[[Bundle], Awaitable["Candidate | None"]],
    ) -> None:
        """`elsewhere` names a broker that decides about a bundle that nobody owns, in place of all who run this load
        manager."""
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
        """Answer with the owner, with the broker to ask instead, or with what to wait for.

        Raises:
            BundleNotFoundError: the range is not a bundle (any more).
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
            return Wait("brokers", BundleNotAcquiredError(bundle, "no broker is available to own it"))
        if broker_id == me:
            return await self._acquire(bundle)
        urls = await self._registration.urls_of(broker_id)
        if urls is None:
            return Wait("brokers", BundleNotAcquiredError(bundle, f"broker {broker_id}, chosen for it, is gone"))
        return Candidate(urls, authoritative_redirect)

    async def _candidate(self, bundle: Bundle, me: str, *, authoritative: bool) -> tuple[str | None, bool]:
        """Return the broker to own the bundle, or to be asked, and whether he may take that for granted."""
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
        """Return who decides in place of this broker; None if it decides itself."""
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
            raise BundleNotAcquiredError(bundle, f"no broker could be chosen: {error}") from error
        return None if placement is None else placement.broker

    async def _acquire(self, bundle: Bundle) -> Owner | Wait:
        try:
            return await self._ownership.acquire(bundle, reason="lookup")
        except LockBusyError:
            return Wait("bundle", BundleNotAcquiredError(bundle, "another broker was faster"))
        except BundleNotFoundError:
            raise
        except BundleNotAcquiredError as error:
            return Wait("bundle", error)
