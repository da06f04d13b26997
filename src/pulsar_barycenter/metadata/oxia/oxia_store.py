"""A metadata store in Oxia that brokers on any number of machines share.

A write is one request under the condition that the key has not changed since this client last read or wrote it. If
another client has changed it, the server refuses; then the key is read, and the write is tried again. Oxia has no
condition for a guard (the version of another key) or for the absence of children: these are checked by a read just
before the write, and not atomically.

The caches drop the changed key before the caller continues. Listeners are notified when the server reports the change,
in the order of all changes.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self

from pulsar_barycenter.bounds.recent import Recent
from pulsar_barycenter.metadata.clock import Clock, SystemClock
from pulsar_barycenter.metadata.conditions import PutOptions, check_delete, check_guard, check_put, sequential_path
from pulsar_barycenter.metadata.errors import (
    InvalidPathError,
    NotFoundError,
    StoreUnavailableError,
    ValueTooLargeError,
)
from pulsar_barycenter.metadata.grpc_client.grpc_store import GrpcStore
from pulsar_barycenter.metadata.oxia import oxia_api_pb2 as api
from pulsar_barycenter.metadata.oxia.layout import Layout, child_names
from pulsar_barycenter.metadata.oxia.oxia_connection import Leader, OxiaConnection
from pulsar_barycenter.metadata.oxia.oxia_settings import OxiaSettings
from pulsar_barycenter.metadata.oxia.session import OxiaSession, ending
from pulsar_barycenter.metadata.oxia.watch import OxiaWatch
from pulsar_barycenter.metadata.oxia.writes import (
    Known,
    OtherVersionError,
    SessionEndedError,
    delete_request,
    found_in,
    known_of,
    number_request,
    put_request,
    record_of,
    written,
)
from pulsar_barycenter.metadata.store import (
    MUST_NOT_EXIST,
    Guard,
    Notification,
    NotificationType,
    Record,
    SessionEvent,
    Stat,
)

MAX_VALUE_BYTES: Final = 4 << 20
"""The maximum size in bytes of one value. One answer of the server may contain several values."""
MAX_RACES: Final = 100
REMEMBERED: Final = 10_000
"""The maximum number of keys whose last seen state a client keeps."""


@dataclass(frozen=True, slots=True)
class _SeenState:
    """The state on which a write depends, as this client has read it: the state of the key, the state of the guard's
    key, and whether there are keys below the key. None: the key does not exist, or was not read.
    """

    key: Known | None
    guard: Known | None = None
    has_children: bool = False


class OxiaStore(GrpcStore):
    """A session with a metadata store in Oxia. `MetadataStore` describes its methods. Created by `open`.

    The times in a Stat are those of the Oxia server's clock.
    """

    name = "oxia"
    connection: OxiaConnection
    keeper: OxiaSession
    _watch: OxiaWatch

    def __init__(
        self, clock: Clock, settings: OxiaSettings, *, session_timeout_ms: int, operation_timeout_s: float
    ) -> None:
        super().__init__(clock)
        self._layout = Layout(settings.chroot)
        source = random.Random()
        self.connection = OxiaConnection(settings, timeout_s=operation_timeout_s, source=source)
        self.keeper = OxiaSession(
            self.connection,
            self._layout,
            namespace=settings.namespace,
            timeout_ms=session_timeout_ms,
            on_session=self._on_session,
            source=source,
        )
        self._watch = OxiaWatch(
            self.connection,
            self._layout,
            silence_s=self.keeper.timeout_s,
            on_change=self._on_change,
            on_missed=self.keeper.fell_behind,
            source=source,
        )
        self._seen: Recent[str, Known] = Recent(REMEMBERED)
        """The last seen state of keys, least recently seen first."""

    @classmethod
    async def open(
        cls,
        settings: OxiaSettings,
        *,
        session_timeout_ms: int = 10_000,
        operation_timeout_s: float = 30.0,
        clock: Clock | None = None,
    ) -> Self:
        """Open a session with the servers in `settings`.

        The session timeout is `session_timeout_ms`, but at least 2 and at most 300 seconds.

        Raises:
            StoreUnavailableError: no server answered for ten seconds.
            StoreRefusedError: the token is wrong, the namespace does not exist, or the servers are too old.
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
        request = api.GetRequest(key=self._layout.key(path), include_value=True)
        (found,) = await self._read("get", path, [request], takes_turn=takes_turn)
        self._remember(path, found_in(found))
        return record_of(path, found, self._session)

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
        if path == "/":
            raise InvalidPathError(path)
        if len(data) > MAX_VALUE_BYTES:
            raise ValueTooLargeError(path, len(data), f"a value in Oxia can have at most {MAX_VALUE_BYTES} bytes")
        if sequential:
            path = sequential_path(path, await self._next_number(path))
        options = PutOptions(expected_version, ephemeral, sequential, if_own, guard)
        state = self._remembered_state(path, options, session)
        for _ in range(MAX_RACES):
            state = state or await self._read_state(path, session, "put", guard)
            check_guard(guard, None if state.guard is None else state.guard.version)
            own = state.key is not None and state.key.is_own(session)
            check_put(path, None if state.key is None else state.key.version, options, own=own)
            request = put_request(self._layout.key(path), data, options, session, state.key)
            try:
                known = await self._write("put", path, request, session)
            except OtherVersionError:
                self._seen.pop(path)
                state = None
                continue
            self._remember(path, known)
            kind = NotificationType.MODIFIED if known.version else NotificationType.CREATED
            self._listeners.invalidate(Notification(kind, path))
            return known.stat(path, session)
        raise StoreUnavailableError(
            path, f"put failed: other clients changed the key during each of {MAX_RACES} attempts. Try again."
        )

    async def delete(
        self, path: str, *, expected_version: int | None = None, if_own: bool = False, guard: Guard | None = None
    ) -> None:
        session = self._writing(path)
        for _ in range(MAX_RACES):
            state = await self._read_state(path, session, "delete", guard, children=True)
            check_guard(guard, None if state.guard is None else state.guard.version)
            check_delete(
                path,
                None if state.key is None else state.key.version,
                expected=expected_version,
                if_own=if_own,
                own=state.key is not None and state.key.is_own(session),
                has_children=state.has_children,
            )
            if state.key is None:
                raise NotFoundError(path)
            request = delete_request(self._layout.key(path), session, state.key)
            self._seen.pop(path)
            try:
                await self._write("delete", path, request, session)
            except OtherVersionError:
                continue
            self._listeners.invalidate(Notification(NotificationType.DELETED, path))
            return
        raise StoreUnavailableError(
            path, f"delete failed: other clients changed the key during each of {MAX_RACES} attempts. Try again."
        )

    async def children(self, path: str) -> list[str]:
        self._check_open(path)
        first, end = self._layout.below(path)
        names: set[str] = set()

        async def collect(leader: Leader, timeout_s: float) -> None:
            names.clear()
            request = api.ListRequest(shard=leader.shard, start_inclusive=first, end_exclusive=end)
            call = leader.stub.List(request, metadata=leader.tokens, timeout=timeout_s)
            async with ending(call):
                while isinstance(page := await call.read(), api.ListResponse):
                    below = [key_path for key in page.keys if (key_path := self._layout.path(key)) is not None]
                    names.update(child_names(path, below))

        await self.connection.ask("children", path, collect)
        return sorted(names)

    async def exists(self, path: str) -> bool:
        self._check_open(path)
        (found,) = await self._read("exists", path, [api.GetRequest(key=self._layout.key(path))])
        return found.status == api.OK

    # ---- what was seen ----

    def _remembered_state(self, path: str, options: PutOptions, session: int) -> _SeenState | None:
        """Return the state on which a put of `path` depends, as this client has seen it last, so that the put can be
        tried without reading first. Return None if the state has to be read before the put.

        The returned state may be outdated. So a put is never refused because of it; the server checks it.
        """
        if options.guard is not None:
            return None
        if options.expected_version == MUST_NOT_EXIST or options.sequential:
            return _SeenState(None)
        key = self._seen.get(path)
        fits = key is not None and options.expected_version in (None, key.version)
        if key is None or not fits or (options.if_own and not key.is_own(session)):
            return None
        return _SeenState(key)

    async def _read_state(
        self, path: str, session: int, operation: str, guard: Guard | None, *, children: bool = False
    ) -> _SeenState:
        """Read the state on which a write of `path` depends: of the key, of the guard's key, and, if `children` is
        True, whether there are keys below `path`. Before these, the key of the session is read.

        Raises:
            SessionLostError: the session has ended.
        """
        requests = [
            api.GetRequest(key=self._layout.session(session)),
            api.GetRequest(key=self._layout.key(path)),
        ]
        if guard is not None:
            requests.append(api.GetRequest(key=self._layout.key(guard.path)))
        first, end = self._layout.below(path)
        if children:
            requests.append(api.GetRequest(key=first, comparison_type=api.CEILING))
        shown, key, *others = await self._read(operation, path, requests, session=session)
        if shown.status != api.OK:
            raise self._session_ended(session, path, operation)
        guarding = None if guard is None else found_in(others[0])
        has_children = children and others[-1].status == api.OK and first <= others[-1].key < end
        return _SeenState(found_in(key), guarding, has_children)

    def _remember(self, path: str, known: Known | None) -> None:
        if known is None:
            self._seen.pop(path)
        else:
            self._seen.put(path, known)

    # ---- requests ----

    async def _read(
        self,
        operation: str,
        path: str,
        requests: Sequence[api.GetRequest],
        *,
        session: int | None = None,
        takes_turn: bool = True,
    ) -> list[api.GetResponse]:
        """Send read requests to the leader of the shard, and return their answers in the same order. If `session` is
        given and does not belong to this shard any more, because the shard was split, send nothing.

        Raises:
            SessionLostError: `session` does not belong to the shard any more.
        """

        async def read(leader: Leader, timeout_s: float) -> list[api.GetResponse]:
            if session is not None:
                self.keeper.check(leader, session)
            answers: list[api.GetResponse] = []
            request = api.ReadRequest(shard=leader.shard, gets=requests)
            call = leader.stub.Read(request, metadata=leader.tokens, timeout=timeout_s)
            async with ending(call):
                while len(answers) < len(requests):
                    part = await call.read()
                    if not isinstance(part, api.ReadResponse):
                        raise StoreUnavailableError(
                            path,
                            f"{operation} failed: the server ended the connection before the last part of its "
                            "answer. Try again.",
                        )
                    answers.extend(part.gets)
            return answers

        try:
            return await self.connection.ask(operation, path, read, takes_turn=takes_turn)
        except NotFoundError:
            if session is None:
                raise
            raise self._session_ended(session, path, operation) from None

    async def _write(self, operation: str, path: str, request: api.WriteRequest, session: int) -> Known:
        """Send one write to the leader of the shard. It may consist of several puts and deletions. Return the state of
        the record that its last put wrote.

        Raises:
            SessionLostError: the session has ended; nothing was written.
            OtherVersionError: the key has changed since it was read; nothing was written.
        """

        async def write(leader: Leader, timeout_s: float) -> api.WriteResponse:
            self.keeper.check(leader, session)
            return await self.keeper.write(leader, request, timeout_s)

        try:
            return written(await self.connection.ask(operation, path, write))
        except (NotFoundError, SessionEndedError):
            raise self._session_ended(session, path, operation) from None

    async def _next_number(self, path: str) -> int:
        request = number_request(self._layout.sequence(path))
        answer = await self.connection.ask(
            "put", path, lambda leader, timeout_s: self.keeper.write(leader, request, timeout_s)
        )
        return known_of(answer.puts[0].version).version

    # ---- what session and watch report ----

    def _on_session(self, session: int | None, events: list[SessionEvent]) -> None:
        self._session = session
        if not self._closed:
            self._listeners.session_events(events)

    def _on_change(self, change: Notification, version_id: int | None) -> None:
        seen = self._seen.get(change.path)
        if seen is not None and seen.version_id != version_id:
            self._seen.pop(change.path)
        if not self._closed:
            self._listeners.change(change)
