"""Finds or assigns the owner of a bundle in clusters that own bundles by records (the ownership channel).

Every broker may decide about a bundle without an owner. The broker that gets the look-up chooses a broker, publishes
the assignment, and waits until the chosen one publishes that it owns the bundle. Other look-ups meanwhile, here or at
other brokers, see the assignment and wait, too. If two brokers choose at once, the first record in the channel counts.

| the bundle                                              | goes to                                            |
|---------------------------------------------------------|----------------------------------------------------|
| of a heartbeat namespace, or a live SLA-monitor one     | the broker in the name of the namespace            |
| any other, during a migration to another load manager   | the choice of a broker with the newest manager     |
| any other                                               | the choice of the load manager                     |

Source: Pulsar's `ExtensibleLoadManagerImpl.assign`.
"""

from collections.abc import Awaitable, Callable

import structlog

from pulsar_barycenter.broker.cluster.lookup_answers import (
    BundleNotAcquiredError,
    BundleUnloadingError,
    LookupNotReadyError,
    Owner,
)
from pulsar_barycenter.broker.cluster.service_urls import ServiceUrls
from pulsar_barycenter.broker.load_manager.contract import LoadManager
from pulsar_barycenter.broker.lookup.owner_search import Candidate, Wait
from pulsar_barycenter.broker.ownership.channel.record_ownership import RecordOwnership
from pulsar_barycenter.broker.ownership.channel.records import ChannelUnavailableError
from pulsar_barycenter.broker.ownership.contract import InTransit
from pulsar_barycenter.metadata.errors import MetadataError
from pulsar_barycenter.naming.bundle import Bundle
from pulsar_barycenter.naming.namespace import heartbeat_broker, sla_monitor_broker

log = structlog.get_logger(__name__)


class ChannelSearch:
    """Makes attempts to find or assign the owner of a bundle, by ownership records. Implements `Search`."""

    def __init__(
        self,
        ownership: RecordOwnership,
        load_manager: Callable[[], LoadManager],
        elsewhere: Callable[[Bundle], Awaitable[Candidate | None]],
    ) -> None:
        """`load_manager` returns the present load manager. `elsewhere` is called for a bundle without an owner, and
        returns the broker to which the look-up is redirected; None: this broker chooses the owner itself.
        """
        self._ownership = ownership
        self._load_manager = load_manager
        self._elsewhere = elsewhere
        self._urls: ServiceUrls | None = None

    def set_identity(self, urls: ServiceUrls) -> None:
        self._urls = urls

    async def attempt(self, bundle: Bundle, *, authoritative: bool) -> Owner | Candidate | Wait:
        """Return the owner; or, as `Candidate`, the broker to redirect the look-up to; or, as `Wait`, the change after
        which to try again. If the bundle has no owner, this assigns one.

        `authoritative`: the look-up was redirected here by a broker that decided that this broker has to answer it, so
        it is not redirected again.

        Raises:
            BundleNotFoundError: the range is not, or no longer, a bundle of its namespace.
            MetadataError: the store did not answer.
        """
        if self._urls is None:
            return Wait("brokers", LookupNotReadyError("This broker is starting"))
        try:
            owner = await self._ownership.owner_of(bundle)
        except LookupNotReadyError as error:
            return Wait("bundle", error)
        if isinstance(owner, Owner):
            return owner
        if isinstance(owner, InTransit):
            return Wait("bundle", BundleUnloadingError(bundle, f"is in transit at broker {owner.broker_id}"))
        if not authoritative and (redirect := await self._elsewhere(bundle)) is not None:
            return redirect
        broker_id = await self.choose(bundle)
        if broker_id is None:
            return Wait("brokers", BundleNotAcquiredError(bundle, "no broker is available that could own the bundle"))
        try:
            await self._ownership.assign(bundle, broker_id)
        except ChannelUnavailableError as error:
            return Wait("bundle", error)
        owner = self._ownership.owner_cached(bundle)
        return owner or Wait(
            "bundle",
            BundleNotAcquiredError(
                bundle, f"broker {broker_id} was chosen as owner, but has not acquired the bundle yet"
            ),
        )

    async def choose(self, bundle: Bundle) -> str | None:
        """Choose the broker that should own a bundle, and return its id; None if no broker is available. The bundle is
        not assigned yet.

        Raises:
            BundleNotAcquiredError: the load manager failed to choose.
            MetadataError: the store did not answer.
        """
        bound = heartbeat_broker(bundle.namespace)
        if bound is not None:
            return bound
        bound = sla_monitor_broker(bundle.namespace)
        if bound is not None and bound in self._load_manager().available_brokers():
            return bound
        try:
            placement = await self._load_manager().select_broker(bundle)
        except MetadataError:
            raise
        except Exception as error:
            log.exception("placement_failed", bundle=str(bundle))
            raise BundleNotAcquiredError(bundle, f"no owner could be chosen for the bundle: {error}") from error
        return None if placement is None else placement.broker
