"""The lives of a broker that owns by records. One begins with its session, or when it stood still long and went on.

A broker serves by a record alone whose number was taken in its present life: `_since` is a number that it took itself
when that life began. What an Owned record of before says, it says again, by force: if another took the bundle
meanwhile, that comes too late and is refused.

A life is one among others', so it knows them, too: which brokers are registered and own by records, how they are
reached, and with which number their present lives began. By that number a broker knows of a record whether the owner
that it names serves: a broker that was killed and came back does not, until it has published the record again.
"""

import asyncio
import functools
import sys
from abc import abstractmethod
from collections.abc import Callable
from contextlib import suppress
from typing import Annotated, Final, NamedTuple

import msgspec
import structlog

from pulsar_barycenter.broker.cluster.lookup_answers import Owner
from pulsar_barycenter.broker.cluster.registration import Registration, owns_by_records, urls_of_report
from pulsar_barycenter.broker.namespaces.bundle_cache import BundleCache
from pulsar_barycenter.broker.ownership.channel.record_base import RecordBase
from pulsar_barycenter.broker.ownership.channel.term_locks import TermLocks
from pulsar_barycenter.broker.ownership.locks import EPOCH_COUNTER
from pulsar_barycenter.broker.ownership.serving_log import ServingLog
from pulsar_barycenter.load.service_units.service_unit_state import ServiceUnitStateData
from pulsar_barycenter.metadata.cache import MetadataCache
from pulsar_barycenter.metadata.clock import Clock
from pulsar_barycenter.metadata.coordination.counter import next_counter_value
from pulsar_barycenter.metadata.errors import InvalidValueError, MetadataError
from pulsar_barycenter.metadata.store import MUST_NOT_EXIST, MetadataStore, Notification, SessionEvent

log = structlog.get_logger(__name__)

SESSIONS_ROOT: Final = "/loadbalance/extension/sessions"
"""Each broker has a key here, a `Life`, for as long as its session lasts. Its registration may be gone for other
reasons."""
_AGAIN_S: Final = 0.2
_LOOK_AGAIN_S: Final = 5.0
"""How often the other brokers are looked at, whatever was told of them."""


class Life(msgspec.Struct, frozen=True):
    """What a broker's key says: it serves by no record whose number is `since` or lower."""

    since: Annotated[int, msgspec.Meta(ge=0)] = 0


class TermRecord(NamedTuple):
    """The record by which a term was begun."""

    epoch: int
    version_id: int


class Lives(RecordBase[TermRecord]):
    """The part of `ChannelOwnership` that knows in which life this broker is."""

    def __init__(
        self,
        store: MetadataStore,
        bundles: BundleCache,
        registration: Registration,
        *,
        clock: Clock,
        serving_log: ServingLog,
        session_timeout_s: float,
        unload_timeout_s: Callable[[], float],
    ) -> None:
        super().__init__(
            store,
            bundles,
            clock=clock,
            serving_log=serving_log,
            session_timeout_s=session_timeout_s,
            unload_timeout_s=unload_timeout_s,
        )
        self._store = store
        self._registration = registration
        self._locks: TermLocks | None = None
        self._interrupted: list[Callable[[], None]] = []
        """Called when the process stood still."""
        self._life = 0
        self._since: int | None = None
        self._owners: dict[str, Owner] = {}
        """The other brokers that own by records, and how they are reached."""
        self._lives = MetadataCache(store, Life)
        self._lives_began: dict[str, int] = {}
        """The numbers with which their lives began, where that is known."""
        self._brokers_changed = asyncio.Event()
        self._stop_listening = [
            store.add_session_listener(self._on_session_event),
            store.add_listener(self._on_life),
            self._lives.close,
        ]

    def on_interruption(self, listener: Callable[[], None]) -> None:
        """Call `listener` when this process stood still for so long that others may have taken its place."""
        self._interrupted.append(listener)

    def _live(self) -> None:
        """Begin the first life; the broker's identity is known."""
        self._stop_listening.append(self._registration.on_change(self._brokers_changed.set))
        self._spawn(self._follow_brokers(), "addresses of brokers")
        self._spawn(self._begin_life(), "ownership life")
        self._spawn(self._watch_pauses(self._after_pause, self._begin_life_soon), "ownership pauses")

    def _after_pause(self) -> None:
        self._end_life()
        if self._locks is not None:
            self._locks.interrupted()
        for listener in self._interrupted:
            listener()

    def _end_life(self) -> None:
        """From this step on no record of before makes anything this broker's."""
        self._life += 1
        self._since = None

    def _begin_life_soon(self) -> None:
        self._spawn(self._begin_life(), "ownership life")
        self._settle_all()

    async def _begin_life(self) -> None:
        """Take the number after which the records of this life come; only a registered broker has one."""
        life = self._life
        while self._life == life and self._since is None:
            if not self._registration.is_registered:
                await self._registration.wait_change(_AGAIN_S)
                continue
            try:
                number = await self._number()
                await self._show_session(number)
            except MetadataError as error:
                log.info("ownership_life_not_begun", reason=str(error))
                await asyncio.sleep(_AGAIN_S)
                continue
            if self._life == life:
                self._since = number
                self._settle_all()

    async def _show_session(self, number: int) -> None:
        """Have the key that tells others that this session lasts, and with which number this life began.

        Raises:
            MetadataError: there is none now; one of a former session goes with it.
        """
        path = f"{SESSIONS_ROOT}/{self._broker_id}"
        stored = await self._store.get(path)
        is_own = stored is not None and stored.stat.created_by_self
        version = stored.stat.version if stored is not None and is_own else MUST_NOT_EXIST
        life = msgspec.json.encode(Life(number))
        await self._store.put(path, life, expected_version=version, ephemeral=True, if_own=is_own)

    def _on_session_event(self, event: SessionEvent) -> None:
        if event is SessionEvent.SESSION_LOST:
            self._end_life()
            if self._locks is not None:
                self._locks.lose_session()
            self._suspend_all("session lost")
        elif event is SessionEvent.SESSION_REESTABLISHED:
            self._pauses.begin_anew()
            if self._locks is not None:
                self._locks.regain_session()
            self._begin_life_soon()

    def _is_of_this_life(self, record: ServiceUnitStateData | None) -> bool:
        """Tell whether the number of a record was taken in this life."""
        return (
            record is not None and record.epoch is not None and self._since is not None and record.epoch > self._since
        )

    async def _number(self) -> int:
        forget = functools.partial(self._spawn, name="forget a number's key")
        return await next_counter_value(self._store, EPOCH_COUNTER, later=forget)

    # ---- other brokers ----

    def _on_life(self, change: Notification) -> None:
        if change.path.startswith(f"{SESSIONS_ROOT}/"):
            self._brokers_changed.set()

    def _is_of_former_life(self, broker: str, record: ServiceUnitStateData) -> bool:
        """Tell whether a record gives a bundle to a broker that began another life since, as far as that is known."""
        return record.epoch is not None and record.epoch <= self._lives_began.get(broker, -1)

    async def _follow_brokers(self) -> None:
        """Know the addresses of those who are registered; what nobody told of is found out from time to time."""
        while True:
            self._brokers_changed.clear()
            try:
                await self._learn_brokers()
            except MetadataError as error:
                log.info("addresses_of_brokers_not_read", reason=str(error))
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_AGAIN_S):
                    await self._brokers_changed.wait()

    async def _learn_brokers(self) -> None:
        """Learn the addresses of those who are registered and own by records, and forget the others'."""
        brokers = self._registration.brokers
        for broker in [each for each in self._owners if each not in brokers]:
            del self._owners[broker]
            self._lives_began.pop(broker, None)
        read = self._registration.data_of if self._locks is None else self._registration.read
        for broker in sorted(brokers):
            data = await read(broker)
            if data is not None and owns_by_records(data):
                await self._learn_life(broker)
                self._owners[broker] = urls_of_report(broker, data).owner(is_local=False, epoch=None)
            else:
                self._owners.pop(broker, None)

    async def _learn_life(self, broker: str) -> None:
        """Learn with which number the life of a registered broker began.

        Without its key it has begun none yet, and serves nothing. A broker of an earlier version does not tell.
        """
        path = f"{SESSIONS_ROOT}/{broker}"
        try:
            life = await self._lives.get(path)
            if life is None:  # or nobody told that there is one
                self._lives.invalidate(path)
                life = await self._lives.get(path)
        except InvalidValueError:
            self._lives_began.pop(broker, None)
        else:
            self._lives_began[broker] = sys.maxsize if life is None else life.since

    @abstractmethod
    def _settle_all(self) -> None:
        """Look at every bundle."""
