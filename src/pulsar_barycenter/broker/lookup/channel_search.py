"""Who shall own a bundle that nobody owns, where ownership is kept in the channel: any broker that is asked decides.

The broker asked chooses, has the bundle assigned, and waits for the chosen one to say that it owns it; whoever asks
meanwhile, here or elsewhere, finds the assignment and waits, too. Two that choose at once: the first record counts.

| the bundle                                 | goes to                              |
|--------------------------------------------|--------------------------------------|
| heartbeat or live SLA-monitor namespace    | the broker in the name               |
| any other, and another manager is newest   | whom a broker of that one chooses    |
| any other                                  | whom the load manager chooses        |

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
    """One attempt after the other to find, or to make, the owner of a bundle. Implements `Search`."""

    def __init__(
        self,
        ownership: RecordOwnership,
        load_manager: Callable[[], LoadManager],
        elsewhere: Callable[[Bundle], Awaitable[Candidate | None]],
    ) -> None:
        """`elsewhere`: see `OwnerSearch`."""
        self._ownership = ownership
        self._load_manager = load_manager
        self._elsewhere = elsewhere
        self._urls: ServiceUrls | None = None

    def set_identity(self, urls: ServiceUrls) -> None:
        self._urls = urls

    async def attempt(self, bundle: Bundle, *, authoritative: bool) -> Owner | Candidate | Wait:
        """Answer with the owner, or with what to wait for; `authoritative`: ask nobody else who shall own the bundle.

        Raises:
            BundleNotFoundError: the range is not a bundle (any more).
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
            return Wait("brokers", BundleNotAcquiredError(bundle, "no broker is available to own it"))
        try:
            await self._ownership.assign(bundle, broker_id)
        except ChannelUnavailableError as error:
            return Wait("bundle", error)
        owner = self._ownership.owner_cached(bundle)
        return owner or Wait("bundle", BundleNotAcquiredError(bundle, f"broker {broker_id} has not taken it yet"))

    async def choose(self, bundle: Bundle) -> str | None:
        """Return who shall own a bundle.

        Raises:
            BundleNotAcquiredError: the choice failed.
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
            raise BundleNotAcquiredError(bundle, f"no broker could be chosen: {error}") from error
        return None if placement is None else placement.broker
