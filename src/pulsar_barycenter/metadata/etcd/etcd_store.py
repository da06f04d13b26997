"""A metadata store in etcd that brokers on any number of machines share.

A write is one request, which is sent once. The caches drop the changed key before the caller continues. Listeners are
notified when etcd reports the change, in the order of the revisions.
"""

import random
from dataclasses import replace
from typing import Final, Self

from pulsar_barycenter.bounds.recent import Recent
from pulsar_barycenter.metadata.clock import Clock, SystemClock
from pulsar_barycenter.metadata.conditions import PutOptions, sequential_path
from pulsar_barycenter.metadata.errors import (
    BadVersionError,
    GuardError,
    NotFoundError,
    OtherSessionError,
    StoreUnavailableError,
)
from pulsar_barycenter.metadata.etcd import etcd_api_pb2 as api
from pulsar_barycenter.metadata.etcd.etcd_connection import EtcdConnection
from pulsar_barycenter.metadata.etcd.etcd_settings import EtcdSettings
from pulsar_barycenter.metadata.etcd.layout import Layout, child_names, key_after
from pulsar_barycenter.metadata.etcd.lease import EtcdLease
from pulsar_barycenter.metadata.etcd.transactions import (
    Writer,
    delete_outcome,
    delete_request,
    number_outcome,
    number_request,
    put_outcome,
    put_request,
    record_of,
)
from pulsar_barycenter.metadata.etcd.watch import EtcdWatch
from pulsar_barycenter.metadata.grpc_client.grpc_store import GrpcStore
from pulsar_barycenter.metadata.store import (
    MUST_NOT_EXIST,
    Guard,
    Notification,
    NotificationType,
    Record,
    SessionEvent,
    Stat,
)

PAGE: Final = 1000
"""The maximum number of keys that one request for children returns."""
LARGE: Final = 64 << 10
"""Values of more bytes than this are sent only after it is known whether the key exists."""
MAX_RACES: Final = 100
REMEMBERED: Final = 10_000
"""The number of persistent keys for which a session keeps that it created them. etcd records this for ephemeral keys
only.
"""


class EtcdStore(GrpcStore):
    """A session with a metadata store in etcd. `MetadataStore` describes its methods. Created by `open`.

    The times in a Stat are 0, because etcd stores no times. For a persistent key, `created_by_self` is True only if the
    key is among the last REMEMBERED keys that this session created.
    """

    name = "etcd"
    connection: EtcdConnection
    keeper: EtcdLease
    _watch: EtcdWatch

    def __init__(
        self, clock: Clock, settings: EtcdSettings, *, session_timeout_ms: int, operation_timeout_s: float
    ) -> None:
        super().__init__(clock)
        self._layout = Layout(settings.chroot)
        self.connection = EtcdConnection(settings, timeout_s=operation_timeout_s)
        source = random.Random()
        self.keeper = EtcdLease(
            self.connection, self._layout, timeout_ms=session_timeout_ms, on_session=self._on_session, source=source
        )
        self._watch = EtcdWatch(
            self.connection,
            self._layout,
            on_changes=self._on_changes,
            on_missed=self.keeper.fell_behind,
            source=source,
        )
        self._created: Recent[str, int] = Recent(REMEMBERED)
        """The revisions in which this session created persistent keys, oldest first."""

    @classmethod
    async def open(
        cls,
        settings: EtcdSettings,
        *,
        session_timeout_ms: int = 10_000,
        operation_timeout_s: float = 30.0,
        clock: Clock | None = None,
    ) -> Self:
        """Open a session with the servers in `settings`.

        The session timeout is rounded up to whole seconds, and the servers may choose a longer one.

        Raises:
            StoreUnavailableError: no server answered for ten seconds.
            StoreRefusedError: the user name, the password or the permissions are wrong.
        """
        store = cls(
            clock or SystemClock(),
            settings,
            session_timeout_ms=session_timeout_ms,
            operation_timeout_s=operation_timeout_s,
        )
        return await store._opened(settings.endpoints)

    # ---- operations ----

    async def get(self, path: str) -> Record | None:
        return await self._get(path, takes_turn=True)

    async def get_ahead(self, path: str) -> Record | None:
        """Return the value and stat of `path`, as `get` does, but without waiting for other requests of this client."""
        return await self._get(path, takes_turn=False)

    async def _get(self, path: str, *, takes_turn: bool) -> Record | None:
        self._check_open(path)
        found = await self._range("get", path, api.RangeRequest(key=self._layout.key(path)), takes_turn=takes_turn)
        return record_of(path, found.kvs[0], self._reader(path)) if found.kvs else None

    async def put(
        self,
        path: str,
        value: bytes,
        *,
        expected_version: int | None = None,
        ephemeral: bool = False,
        sequential: bool = False,
        if_own: bool = False,
        guard: Guard | None = None,
    ) -> Stat:
        session, data = self._writing(path), bytes(value)
        if sequential:
            path = sequential_path(path, await self._next_number(path, session))
        options = PutOptions(expected_version, ephemeral, sequential, if_own, guard)
        if expected_version is None and len(data) > LARGE:
            return await self._put_large(path, data, options, session)
        return await self._put(path, data, options, session)

    async def delete(
        self, path: str, *, expected_version: int | None = None, if_own: bool = False, guard: Guard | None = None
    ) -> None:
        session = self._writing(path)
        writer = Writer(session, self._created.get(path))
        request = delete_request(
            self._layout, path, writer, expected_version=expected_version, if_own=if_own, guard=guard
        )
        answer = await self._commit("delete", path, request, session)
        if not delete_outcome(path, answer, writer, expected_version=expected_version, if_own=if_own, guard=guard):
            raise self._session_ended(session, path, "delete")
        self._created.pop(path)
        self._listeners.invalidate(Notification(NotificationType.DELETED, path))

    async def children(self, path: str) -> list[str]:
        self._check_open(path)
        names: set[str] = set()
        first, end = self._layout.below(path)
        while True:
            request = api.RangeRequest(key=first, range_end=end, limit=PAGE, keys_only=True)
            page = await self._range("children", path, request)
            paths = [below for kv in page.kvs if (below := self._layout.path(kv.key)) is not None]
            names.update(child_names(path, paths))
            if not page.more:
                return sorted(names)
            last = self._layout.path(page.kvs[-1].key)
            first = page.kvs[-1].key + b"\0" if last is None else key_after(path, last, self._layout)

    async def exists(self, path: str) -> bool:
        self._check_open(path)
        found = await self._range("exists", path, api.RangeRequest(key=self._layout.key(path), count_only=True))
        return found.count > 0

    # ---- requests ----

    async def _put(self, path: str, data: bytes, options: PutOptions, session: int) -> Stat:
        writer = Writer(session, self._created.get(path))
        request = put_request(self._layout, path, data, options, writer)
        answer = await self._commit("put", path, request, session, len(data))
        written = put_outcome(path, answer, options, writer)
        if written is None:
            raise self._session_ended(session, path, "put")
        stat = written.stat
        if stat.ephemeral:
            self._created.pop(path)  # its lease identifies the creator
        elif stat.version == 0 and session == self._session:
            self._created.put(path, written.created)
        kind = NotificationType.MODIFIED if stat.version else NotificationType.CREATED
        self._listeners.invalidate(Notification(kind, path))
        return stat

    async def _put_large(self, path: str, data: bytes, options: PutOptions, session: int) -> Stat:
        """Write a large value for which the caller expects no version. One request would have to contain the value
        twice: for a key that exists, and for one that does not. So first assume that the key does not exist, then that
        it has the version that was found, and write under this condition, until no other client changes the key in
        between.
        """
        version = MUST_NOT_EXIST
        for _ in range(MAX_RACES):
            try:
                return await self._put(path, data, replace(options, expected_version=version), session)
            except (GuardError, OtherSessionError):
                raise
            except BadVersionError as error:
                version = MUST_NOT_EXIST if error.actual is None else error.actual
        raise StoreUnavailableError(
            path, f"put failed: other clients changed the key during each of {MAX_RACES} attempts. Try again."
        )

    async def _range(
        self, operation: str, path: str, request: api.RangeRequest, *, takes_turn: bool = True
    ) -> api.RangeResponse:
        return await self.connection.ask(
            operation,
            path,
            lambda line, tokens, s: line.kv.Range(request, metadata=tokens, timeout=s),
            takes_turn=takes_turn,
        )

    async def _commit(
        self, operation: str, path: str, request: api.TxnRequest, session: int, size: int = 0
    ) -> api.TxnResponse:
        try:
            return await self.connection.ask(
                operation, path, lambda line, tokens, s: line.kv.Txn(request, metadata=tokens, timeout=s), size=size
            )
        except NotFoundError:  # the lease was not found
            raise self._session_ended(session, path, operation) from None

    async def _next_number(self, path: str, session: int) -> int:
        request = number_request(self._layout, path, Writer(session))
        number = number_outcome(await self._commit("put", path, request, session))
        if number is None:
            raise self._session_ended(session, path, "put")
        return number

    def _reader(self, path: str) -> Writer:
        return Writer(self._session or -1, self._created.get(path))

    # ---- what lease and watch report ----

    def _on_session(self, session: int | None, events: list[SessionEvent]) -> None:
        if session != self._session:
            self._session = session
            self._created.clear()
        if not self._closed:
            self._listeners.session_events(events)

    def _on_changes(self, changes: list[Notification]) -> None:
        for change in changes:
            if not self._closed:
                self._listeners.change(change)
