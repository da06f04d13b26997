"""The life of this broker: the time in which its ownership records are valid, from its registration to the end of the
session.

A number here is the epoch of a record, from a counter of the whole cluster. A broker serves a bundle only if it took
the number in the bundle's record in its present life. `_since` is a number that it took when this life began. If the
record that names it as owner is older, the broker writes it again with a new number; if another broker has taken the
bundle in between, this write is refused.

    no life ──registered, a number taken, the key written──▶ alive ──session lost, or a pause──▶ no life
"""

import asyncio
import functools
from collections.abc import Callable
from typing import Annotated, Final

import msgspec
import structlog

from pulsar_barycenter.bounds.background import BackgroundTasks
from pulsar_barycenter.broker.cluster.registration import Registration
from pulsar_barycenter.broker.ownership.channel.machine.steps import PreparedNumber
from pulsar_barycenter.broker.ownership.locks import EPOCH_COUNTER
from pulsar_barycenter.load.service_units.service_unit_state import ServiceUnitStateData
from pulsar_barycenter.metadata.coordination.counter import next_counter_value
from pulsar_barycenter.metadata.errors import MetadataError
from pulsar_barycenter.metadata.store import MUST_NOT_EXIST, MetadataStore
from pulsar_barycenter.naming.bundle import Bundle

log = structlog.get_logger(__name__)

SESSIONS_ROOT: Final = "/loadbalance/extension/sessions"
"""The path below which each broker has an ephemeral key, a `Life`, while its session lasts. (Its registration may be
missing for other reasons.)
"""
_RETRY_S: Final = 0.2


class Life(msgspec.Struct, frozen=True):
    """The value of the key that shows that a broker's present life (see the glossary) lasts. `since` is a number of the
    counter that gives epochs. The broker serves a bundle only if the epoch in the bundle's record is higher.
    """

    since: Annotated[int, msgspec.Meta(ge=0)] = 0


class OwnLife:
    """The present life of this broker: the time in which its ownership records count, from its registration in a
    session to the end of that session.

    It also has values that are dropped when the life ends: for some bundles a lower limit of the epoch (`raise_floor`),
    or an epoch that was taken in advance (`prepare`). `begun` is called each time a life has begun.
    """

    def __init__(
        self, store: MetadataStore, registration: Registration, tasks: BackgroundTasks, *, begun: Callable[[], None]
    ) -> None:
        self._store = store
        self._registration = registration
        self._tasks = tasks
        self._begun = begun
        self._broker_id = ""
        self._since: int | None = None
        self._floors: dict[Bundle, int] = {}
        """The lowest number (exclusive) by which a bundle may be served. Children of a split have one if their number
        was taken before the boundaries were written, by a broker that did not serve the parent: another broker may have
        served it under a higher number. So has a bundle whose term was lost while the record kept its number."""
        self._prepared: dict[Bundle, PreparedNumber] = {}
        self.ended = 0
        """The number of lives that have ended; a coroutine compares it to find that a life ended while it waited."""

    @property
    def has_begun(self) -> bool:
        return self._since is not None

    def start(self, broker_id: str) -> None:
        """Begin the first life of the broker with this id."""
        self._broker_id = broker_id
        self.begin_soon()

    def begin_soon(self) -> None:
        """Begin a new life as soon as this broker is registered and the store answers. This does not wait for it."""
        self._tasks.start(self._begin(), "ownership life")

    def end(self) -> None:
        """End the life: none of the ownership records that exist now makes this broker an owner any more."""
        self.ended += 1
        self._since = None
        self._prepared.clear()
        self._floors.clear()

    async def _begin(self) -> None:
        """Begin a life: wait until this broker is registered, take the next number of the counter that gives epochs,
        and publish it. All epochs that are taken later in this life are higher.
        """
        life = self.ended
        while self.ended == life and self._since is None:
            if not self._registration.is_registered:
                await self._registration.wait_change(_RETRY_S)
                continue
            try:
                number = await self.number()
                await self._publish(number)
            except MetadataError as error:
                log.info("ownership_life_not_begun", reason=str(error))
                await asyncio.sleep(_RETRY_S)
                continue
            if self.ended == life:
                self._since = number
                self._begun()

    async def _publish(self, number: int) -> None:
        """Write the ephemeral key that shows other brokers that this broker's session exists. Its value is `number`,
        with which the life began.

        Raises:
            MetadataError: the key cannot be written now; the key of a former session may still exist until that session
                expires.
        """
        path = f"{SESSIONS_ROOT}/{self._broker_id}"
        stored = await self._store.get(path)
        is_own = stored is not None and stored.stat.created_by_self
        version = stored.stat.version if stored is not None and is_own else MUST_NOT_EXIST
        life = msgspec.json.encode(Life(number))
        await self._store.put(path, life, expected_version=version, ephemeral=True, if_own=is_own)

    # ---- numbers ----

    async def number(self) -> int:
        """Take the next number of the counter that all brokers of the cluster share. It is used as the epoch of a term,
        or as the beginning of a life.

        Raises:
            MetadataError: the store did not answer.
        """
        forget = functools.partial(self._tasks.start, name="forget a number's key")
        return await next_counter_value(self._store, EPOCH_COUNTER, later=forget)

    def has_numbered(self, record: ServiceUnitStateData | None) -> bool:
        """Return whether the epoch in an ownership record was taken in the present life of this broker. False if there
        is no record, or no life.
        """
        return (
            record is not None and record.epoch is not None and self._since is not None and record.epoch > self._since
        )

    def may_serve(self, bundle: Bundle, record: ServiceUnitStateData | None, above: int = 0) -> bool:
        """Return whether an ownership record allows this broker to serve the bundle: its epoch was taken in the present
        life, and is higher than `above` and than the limit of `raise_floor`.
        """
        lowest = max(above, self._floors.get(bundle, 0))
        return self.has_numbered(record) and record is not None and (record.epoch or 0) > lowest

    def raise_floor(self, bundle: Bundle, number: int) -> None:
        """Set a lower limit of the epoch for a bundle: this broker serves it only under an epoch that is higher than
        `number`. The limit is removed when another broker owns the bundle, or the life ends.
        """
        self._floors[bundle] = max(number, self._floors.get(bundle, 0))

    def drop_floor(self, bundle: Bundle) -> None:
        self._floors.pop(bundle, None)

    def prepare(self, bundle: Bundle, prepared: PreparedNumber) -> None:
        """Keep an epoch that this broker took when a transfer of the bundle to it began, for the term that begins at
        the end of the transfer.
        """
        self._prepared[bundle] = prepared

    def take_prepared(self, bundle: Bundle, record: ServiceUnitStateData) -> int | None:
        """Remove the epoch that `prepare` kept for the bundle. Return it if `record` is the next record of that
        transfer, else None.
        """
        prepared = self._prepared.pop(bundle, None)
        return prepared.epoch if prepared is not None and prepared.version_id == record.version_id - 1 else None

    def record_changed(
        self, bundle: Bundle, before: ServiceUnitStateData | None, after: ServiceUnitStateData | None
    ) -> None:
        """Called when the ownership record of a bundle has changed from `before` to `after`. Remove the epoch that
        `prepare` kept for the bundle, unless this change is the next step of the transfer for which it was taken.
        """
        prepared = self._prepared.get(bundle)
        if prepared is not None and not prepared.goes_on(before, after):
            del self._prepared[bundle]
