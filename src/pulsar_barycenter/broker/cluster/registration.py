"""The live brokers: the ephemeral keys under /loadbalance/brokers, one of which is this broker's.

A broker registers as the last step of its start, and unregisters as the first step of its stop. Only registered brokers
get bundles. The key is a lock: the first process with a broker id has it, and a second one is refused. The key of a
process that was killed exists until its session expires, so a broker that restarts waits at most that long.

Source: the lock that `ModularLoadManagerImpl.start` takes. Pulsar lets a second process with the same URLs take the key
over; here that is refused.
"""

import asyncio
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final, Protocol, cast

import msgspec
import structlog

from pulsar_barycenter.broker.changes import NextChange, StoreWatch
from pulsar_barycenter.broker.cluster.lookup_answers import ListenerUrls
from pulsar_barycenter.broker.cluster.service_urls import ServiceUrls
from pulsar_barycenter.broker.start_errors import BrokerIdInUseError
from pulsar_barycenter.load.managers import ManagerKind, StrategyError, manager_kind
from pulsar_barycenter.load.reports.load_report import LocalBrokerData
from pulsar_barycenter.metadata.cache import REFRESH_AFTER_S, MetadataCache
from pulsar_barycenter.metadata.codec import JsonCodec
from pulsar_barycenter.metadata.coordination.locks import LockManager, ResourceLock
from pulsar_barycenter.metadata.errors import LockBusyError, MetadataError
from pulsar_barycenter.metadata.store import MetadataStore

log = structlog.get_logger(__name__)

BROKERS_ROOT: Final = "/loadbalance/brokers"
_REGAIN_PAUSE_S: Final = 1.0
_REFRESH_S: Final = 5.0
"""The number of seconds between two reads of the list of brokers without a notification, which may be late or lost."""


class BrokerRecord(Protocol):
    """The value of the key under which a broker is registered: its load report, the id of its process, and its URLs in
    the fields of LocalBrokerData.
    """

    @property
    def incarnation(self) -> str: ...


def same_process(stored: BrokerRecord, mine: BrokerRecord) -> bool:
    """Return whether this process wrote `stored`, a registration in the store, in its present session or a former
    one.
    """
    return bool(mine.incarnation) and stored.incarnation == mine.incarnation


class RecordCodec:
    """Encodes the load report of any load manager as JSON. Decodes a report of any load manager to a LocalBrokerData,
    which has only the fields that all these reports share.
    """

    def __init__(self) -> None:
        self._json = JsonCodec(LocalBrokerData)
        self._encoder = msgspec.json.Encoder()

    def encode(self, value: BrokerRecord) -> bytes:
        return self._encoder.encode(value)

    def decode(self, path: str, data: bytes) -> BrokerRecord:
        return self._json.decode(path, data)


class Registration:
    """The registration of this broker, which is a key in the store, and the list of all registered brokers. The load
    manager decides the value of the key.
    """

    def __init__(
        self,
        store: MetadataStore,
        *,
        session_timeout_s: float,
        source: random.Random,
        refresh_after_s: float = REFRESH_AFTER_S,
    ) -> None:
        self._store = store
        self._session_timeout_s = session_timeout_s
        self._cache = MetadataCache(store, LocalBrokerData, refresh_after_s=refresh_after_s)
        self._locks: LockManager[BrokerRecord] = LockManager(
            store,
            cast("type[BrokerRecord]", LocalBrokerData),
            same_owner=same_process,
            codec=RecordCodec(),
            source=source,
        )
        self._lock: ResourceLock[BrokerRecord] | None = None
        self._brokers: frozenset[str] = frozenset()
        self._listeners: list[Callable[[], None]] = []
        self._change = NextChange()
        self._watch = StoreWatch(
            store,
            name="broker list",
            concerns=lambda path: path.startswith(BROKERS_ROOT),
            read=self._reload,
            interval_s=_REFRESH_S,
            failure="broker_list_not_read",
        )
        self._regaining: asyncio.Task[None] | None = None
        self._times_taken = 0
        self._is_kept = False

    @property
    def is_registered(self) -> bool:
        return self._lock is not None and self._lock.is_held

    @property
    def times_taken(self) -> int:
        """How many times this broker has created its key: more than once if it lost the key."""
        return self._times_taken

    @property
    def brokers(self) -> frozenset[str]:
        """The ids of the registered brokers, as they were read last."""
        return self._brokers

    def on_change(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener` after each change under /loadbalance/brokers; return a function that removes the listener."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    async def start(self) -> None:
        """Read the list of registered brokers, and watch it from now on. This does not register this broker."""
        await self._watch.start(self.refresh)

    async def close(self) -> None:
        await self._watch.close()
        with suppress(MetadataError):  # the key ends with the session
            await self.unregister()
        await self._locks.close()
        self._cache.close()

    async def await_id_free(self, broker_id: str) -> None:
        """Wait until no process is registered as `broker_id`. The key of a process that has ended expires with its
        session.

        Raises:
            BrokerIdInUseError: the key exists for longer than a session timeout, so its process is alive.
        """
        loop = asyncio.get_running_loop()
        started = loop.time()
        limit_s = self._session_timeout_s * 1.2 + 2
        while await self._store.exists(f"{BROKERS_ROOT}/{broker_id}"):
            waited_s = loop.time() - started
            if waited_s >= limit_s:
                raise BrokerIdInUseError(broker_id, waited_s)
            if waited_s == 0:
                log.warning("broker_id_still_registered", broker=broker_id, waiting_up_to_s=limit_s)
            await self.wait_change(min(0.5, limit_s - waited_s))

    async def register(self, broker_id: str, data: BrokerRecord) -> None:
        """Create this broker's key with the value `data`. Within `kept`, the key exists already and gets this value.

        Raises:
            BrokerIdInUseError: another process has the key.
            LockBusyError: within `kept`, this broker has lost its key.
        """
        if self._is_kept:
            await self.update(data)
            return
        try:
            self._set_lock(await self._locks.acquire(f"{BROKERS_ROOT}/{broker_id}", data))
        except LockBusyError as error:
            raise BrokerIdInUseError(broker_id, 0) from error
        self._brokers |= {broker_id}

    def _set_lock(self, lock: ResourceLock[BrokerRecord]) -> None:
        self._lock = lock
        self._times_taken += 1
        lock.expired.add_done_callback(lambda _: self._on_expired(lock))

    def _on_expired(self, lock: ResourceLock[BrokerRecord]) -> None:
        if self._lock is lock:  # else `unregister` released it
            self._regaining = asyncio.create_task(self._regain(lock), name="regain registration")

    async def _regain(self, lost: ResourceLock[BrokerRecord]) -> None:
        """Create this broker's key again as soon as no other process has it. Until then this broker gets no new
        bundles.
        """
        log.error("registration_lost", path=lost.path)
        while self._lock is lost:
            try:
                lock = await self._locks.acquire(lost.path, lost.value)
            except MetadataError as error:
                log.warning("registration_not_regained", path=lost.path, reason=str(error))
                await asyncio.sleep(_REGAIN_PAUSE_S)
            else:
                self._set_lock(lock)
                log.info("registration_regained", path=lost.path)

    async def update(self, data: BrokerRecord) -> None:
        """Write a new load report to this broker's key.

        Raises:
            LockBusyError: this broker is not registered.
        """
        if self._lock is None:
            raise LockBusyError(BROKERS_ROOT)
        await self._lock.update(data)

    async def unregister(self) -> None:
        """Delete this broker's key. It is no error if the key does not exist. Idempotent."""
        if self._is_kept:
            return
        lock, self._lock = self._lock, None
        if self._regaining is not None:
            self._regaining.cancel()
            await asyncio.gather(self._regaining, return_exceptions=True)
            self._regaining = None
        if lock is not None:
            await lock.release()

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Context manager for replacing the load manager: inside the `with` statement `unregister` has no effect, and
        `register` updates the key.
        """
        self._is_kept = True
        try:
            yield
        finally:
            self._is_kept = False

    async def data_of(self, broker_id: str) -> LocalBrokerData | None:
        """Return the registration of a broker with its last load report, from the cache if possible; None if it is not
        registered.

        The result has the bundles of the broker only if that broker has the modular load manager. Otherwise it has only
        the broker's names, URLs and usage.
        """
        return await self._cache.get(f"{BROKERS_ROOT}/{broker_id}")

    async def read(self, broker_id: str) -> LocalBrokerData | None:
        """Read the registration of a broker with its last load report from the store now; None if it is not
        registered.
        """
        self._cache.invalidate(f"{BROKERS_ROOT}/{broker_id}")
        return await self.data_of(broker_id)

    async def urls_of(self, broker_id: str) -> ServiceUrls | None:
        data = await self.data_of(broker_id)
        return None if data is None else urls_of_report(broker_id, data)

    async def refresh(self) -> frozenset[str]:
        """Read the list of registered brokers from the store, and return it.

        Cached registrations of brokers that joined are dropped, because the cache may have recorded that they are
        absent.
        """
        before, self._brokers = self._brokers, frozenset(await self._store.children(BROKERS_ROOT))
        for broker_id in self._brokers - before:
            self._cache.invalidate(f"{BROKERS_ROOT}/{broker_id}")
        return self._brokers

    async def wait_change(self, timeout_s: float) -> None:
        """Return at the next change of the list of registered brokers, or after `timeout_s` seconds; in both cases
        without an error.
        """
        await self._change.wait(timeout_s)

    async def _reload(self, was_notified: bool) -> None:
        before = self._brokers
        await self.refresh()
        if before != self._brokers:
            log.info("brokers_changed", joined=sorted(self._brokers - before), left=sorted(before - self._brokers))
        if was_notified or before != self._brokers:
            self._notify()

    def _notify(self) -> None:
        self._change.notify()
        for listener in list(self._listeners):
            try:
                listener()
            except Exception:
                log.exception("broker_list_listener_failed")


def owns_by_records(data: LocalBrokerData) -> bool:
    """Return whether the load manager of a registered broker stores ownership in records (the ownership channel), not
    in locks.

    False for a load manager that this broker does not know: all except the extensible one use locks.
    """
    try:
        return manager_kind(data.load_manager_class_name or "") is ManagerKind.EXTENSIBLE
    except StrategyError:
        return False


def urls_of_report(broker_id: str, data: LocalBrokerData) -> ServiceUrls:
    """Return the URLs of the broker `broker_id` that are in `data`, its load report."""
    return ServiceUrls(
        broker_id=broker_id,
        broker_url=data.pulsar_service_url,
        broker_url_tls=data.pulsar_service_url_tls,
        web_url=data.web_service_url,
        web_url_tls=data.web_service_url_tls,
        listeners={
            name: ListenerUrls(
                urls.broker_service_url, urls.broker_service_url_tls, urls.broker_http_url, urls.broker_https_url
            )
            for name, urls in data.advertised_listeners.items()
        },
    )
