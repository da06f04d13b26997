"""Ownership by records of the ownership channel: for the extensible load manager."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator
from contextlib import suppress
from typing import Final

import structlog

from pulsar_barycenter.broker.cluster.leadership import Duty, Leadership
from pulsar_barycenter.broker.cluster.lookup_answers import BundleNotAcquiredError
from pulsar_barycenter.broker.control.leader_rounds import LeaderRounds
from pulsar_barycenter.broker.control.ownership_way import Departure, WaySample
from pulsar_barycenter.broker.load_manager.contract import ChoosesSuccessors
from pulsar_barycenter.broker.load_manager.switch import LoadManagerSwitch
from pulsar_barycenter.broker.lookup.owner_search import Search
from pulsar_barycenter.broker.ownership.channel.ownership_channel import OwnershipChannel
from pulsar_barycenter.broker.ownership.mixed_ownership import OwnershipMode
from pulsar_barycenter.metadata.errors import MetadataError
from pulsar_barycenter.naming.bundle import Bundle

log = structlog.get_logger(__name__)

_SERVE_OTHERS_S: Final = 15.0
"""The number of seconds for which a leader that leaves stays leader for other leaving brokers."""
_SERVE_OTHERS_PAUSE_S: Final = 0.05


class RecordWay:
    """Implements `OwnershipWay` for a broker that owns bundles by ownership records: has the objects that do so. `me`
    returns the id of this broker; it is called only after the id is known.
    """

    hands_over = True

    def __init__(
        self,
        channel: OwnershipChannel,
        search: Search,
        leadership: Leadership,
        switch: LoadManagerSwitch,
        me: Callable[[], str],
    ) -> None:
        self.channel = channel
        self.ownership = channel.owner
        self.search = search
        self.leaders_term = channel.leaders_topics
        self.changes = channel
        self._leadership = leadership
        self._switch = switch
        self._me = me

    @property
    def mode(self) -> OwnershipMode:
        return self.channel.mode

    async def join(
        self, register: Callable[[], Awaitable[None]], own_namespaces: Callable[[], Awaitable[None]]
    ) -> None:
        """Register this broker, then own the namespaces that belong to it alone. In this order, because other brokers
        find the address of an owner in its registration.
        """
        await register()
        await own_namespaces()

    async def leave(self, departure: Departure) -> int:
        """Release all bundles, resign as leader and unregister this broker, in this order; return the number of
        released bundles. While it releases them, this broker stays registered, but gets no more bundles. It unregisters
        after the last of its bundles has another owner.
        """
        self._leadership.decline()  # it accepts no more connections, so it could not serve the internal topics
        manager = self._switch.current
        if isinstance(manager, ChoosesSuccessors):
            await manager.announce_leaving()
        handed_over = await departure.hand_over()
        if self._leadership.is_leader():
            await self._serve_leaving_brokers()
        await departure.resign()
        await departure.unregister()
        return handed_over

    async def _serve_leaving_brokers(self) -> None:
        """If this broker is the leader, continue to serve the topic of ownership records until the other brokers that
        are leaving have handed over their bundles, for at most _SERVE_OTHERS_S seconds.

        If it did not, a broker that is not leaving would have to become leader; there is none if the whole cluster
        stops.
        """
        manager = self._switch.current
        with suppress(TimeoutError, MetadataError):
            async with asyncio.timeout(_SERVE_OTHERS_S):
                while isinstance(manager, ChoosesSuccessors):
                    others = await manager.leaving_brokers() - {self._me()}
                    if others.isdisjoint(self.channel.ownership.concerned()):
                        return
                    await asyncio.sleep(_SERVE_OTHERS_PAUSE_S)

    def leader_duties(self, rounds: LeaderRounds) -> tuple[Duty, ...]:
        return rounds.shedding(), self.channel.monitor_duty(), self.channel.syncer_duty()

    def samples(self) -> Iterator[WaySample]:
        labels = {"metric": "sunitStateChn"}
        yield "pulsar_sunit_state_chn_owned_su_total", labels, len(self.ownership.owned_bundles())
        for name, more, count in self.channel.counters.samples():
            yield name, {**labels, **more}, count
        for name, value in self.channel.syncer.samples():
            yield name, {}, value

    async def close(self) -> None:
        await self.channel.close()


class SuccessorChoice:
    """Chooses the next owner of a bundle, after its owner released or lost the bundle, by asking the present load
    manager.
    """

    def __init__(self, switch: LoadManagerSwitch) -> None:
        self._switch = switch

    async def choose(self, bundle: Bundle, without: Collection[str]) -> str | None:
        """Return the id of the next owner of a bundle, which is none of the brokers `without`; None if no broker can
        own it.

        Raises:
            BundleNotAcquiredError: the load manager failed to choose.
            MetadataError: the store did not answer.
        """
        manager = self._switch.current
        assert isinstance(manager, ChoosesSuccessors), f"{type(manager).__name__} chooses no successors"
        try:
            placement = await manager.select_successor(bundle, without)
        except MetadataError:
            raise
        except Exception as error:
            log.exception("placement_failed", bundle=str(bundle))
            raise BundleNotAcquiredError(bundle, f"no next owner could be chosen for the bundle: {error}") from error
        return None if placement is None else placement.broker
