"""A metadata store in ZooKeeper: the operations, and the requests that they send.

`session_keeper` explains the session. ZooKeeper checks versions itself. It cannot check whether a key belongs to this
session (`if_own`), and whether a node is a key at all: that is read in a request before the write. A write with a guard
is one transaction that also checks the guard. An operation whose outcome is unknown is never repeated.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final, Self, TypeVar

from kazoo.exceptions import BadVersionError as OtherVersion
from kazoo.exceptions import KazooException, NodeExistsError, NoNodeError, NotEmptyError, RolledBackError

from pulsar_barycenter.metadata.clock import SystemClock
from pulsar_barycenter.metadata.conditions import PutOptions
from pulsar_barycenter.metadata.errors import (
    BadVersionError,
    GuardError,
    HasChildrenError,
    InvalidPathError,
    MetadataError,
    NotFoundError,
    OtherSessionError,
    SessionLostError,
    StoreClosedError,
    StoreUnavailableError,
)
from pulsar_barycenter.metadata.store import (
    MUST_NOT_EXIST,
    Guard,
    Notification,
    NotificationType,
    Record,
    Stat,
    ancestors,
    parent_path,
)
from pulsar_barycenter.metadata.store_client import StoreClient
from pulsar_barycenter.metadata.zookeeper.layout import (
    check_node_path,
    check_size,
    is_numbered,
    is_parent_only,
    key_of,
    node_of,
    refusal_of,
    stat_of,
)
from pulsar_barycenter.metadata.zookeeper.session_keeper import SessionKeeper
from pulsar_barycenter.metadata.zookeeper.session_link import CHANGED, CREATED, DELETED, Ask, SessionLink
from pulsar_barycenter.metadata.zookeeper.zookeeper_settings import ZooKeeperSettings

MAX_IN_FLIGHT: Final = 256
"""The maximum number of requests of one client that wait for ZooKeeper. Further ones are not sent yet, so that a
thousand locks that are restored at once do not fill a server's queue (its globalOutstandingLimit is 1,000).
"""

MAX_RACES: Final = 20
"""The maximum number of attempts of one operation, if other clients change the key after it was read."""

_NOTIFICATION_TYPES: Final = {
    CREATED: NotificationType.CREATED,
    CHANGED: NotificationType.MODIFIED,
    DELETED: NotificationType.DELETED,
}
_ANY: Final = -1

Result = TypeVar("Result")


class ZooKeeperStore(StoreClient):
    """A session with a metadata store in ZooKeeper. `MetadataStore` describes its methods. Created by `open`."""

    def __init__(
        self, hosts: str, root: str, timeout_s: float, operation_timeout_s: float, settings: ZooKeeperSettings
    ) -> None:
        super().__init__(SystemClock(), None)  # the clock is unused: times in a Stat are the servers'
        self._root = root
        self._operation_timeout_s = operation_timeout_s
        self._turns = asyncio.Semaphore(MAX_IN_FLIGHT)
        self._keeper = SessionKeeper(
            lambda audience: SessionLink(hosts, root or "/", timeout_s, settings, audience),
            self._listeners,
            self._on_event,
        )

    @classmethod
    async def open(
        cls,
        servers: str,
        *,
        session_timeout_ms: int = 10_000,
        operation_timeout_s: float = 30.0,
        settings: ZooKeeperSettings = ZooKeeperSettings(),  # noqa: B008  # it is frozen
    ) -> Self:
        """Open a session with the servers in `servers`, which has the form `HOST:PORT,HOST:PORT/PATH`. The optional
        `/PATH` is the chroot; its node is created if it does not exist.

        The servers may choose a shorter or longer session timeout. An operation that gets no answer within
        `operation_timeout_s` seconds raises StoreUnavailableError. The times in a Stat are those of the servers'
        clocks.

        Raises:
            StoreUnavailableError: no server answered within `operation_timeout_s` seconds.
            MetadataError: a server is older than ZooKeeper 3.6.
            InvalidPathError: the chroot is not a valid path.
        """
        hosts, slash, path = servers.partition("/")
        root = f"/{path.strip('/')}" if slash and path.strip("/") else ""
        check_node_path(root or "/")
        store = cls(hosts, root, session_timeout_ms / 1000, operation_timeout_s, settings)
        try:
            async with asyncio.timeout(operation_timeout_s):
                await store._keeper.wait_begun()
                if root:
                    await store._keeper.link_of(None).ask(lambda client: client.ensure_path_async(root))
        except TimeoutError:
            last_failure = store._keeper.link_of(None).last_failure
            await store.close()
            raise StoreUnavailableError(
                "/",
                f"no ZooKeeper answered at {hosts} within {operation_timeout_s:g} s"
                + (last_failure and f" ({last_failure})"),
            ) from None
        except KazooException as error:
            await store.close()
            raise refusal_of("/", error) from error
        except BaseException:
            await store.close()
            raise
        return store

    # ---- operations ----

    async def get(self, path: str) -> Record | None:
        async def get() -> Record | None:
            try:
                value, stat = await self._ask(path, None, lambda client: client.get_async(self._node(path)))
            except NoNodeError:
                return None
            if path == "/" or is_parent_only(stat):
                return None
            return Record(value, stat_of(path, stat, self._keeper.session))

        return await self._operate(path, get)

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
        options, data = PutOptions(expected_version, ephemeral, sequential, if_own, guard), bytes(value)
        session = self._writer(path)
        check_size(path, data)
        if path == "/":
            raise InvalidPathError(path)
        if sequential:
            return await self._operate(path, lambda: self._append(path, data, options, session))
        return await self._operate(path, lambda: self._put(path, data, options, session))

    async def delete(
        self, path: str, *, expected_version: int | None = None, if_own: bool = False, guard: Guard | None = None
    ) -> None:
        session = self._writer(path)
        if path == "/":
            raise NotFoundError(path)
        await self._operate(path, lambda: self._delete(path, expected_version, session, guard, if_own=if_own))

    async def children(self, path: str) -> list[str]:
        async def children() -> list[str]:
            try:
                names = await self._ask(path, None, lambda client: client.get_children_async(self._node(path)))
            except NoNodeError:
                return []
            below = "" if path == "/" else path
            return sorted(name for name in names if key_of(self._root, node_of(self._root, f"{below}/{name}")))

        return await self._operate(path, children)

    async def exists(self, path: str) -> bool:
        async def exists() -> bool:
            stat = await self._stat(path, None)
            return path != "/" and stat is not None and not is_parent_only(stat)

        return await self._operate(path, exists)

    @property
    def session(self) -> int | None:
        """The id of the session with the servers; None while there is none."""
        return self._keeper.session

    @property
    def session_is_overdue(self) -> bool:
        return self._keeper.is_overdue

    async def close(self) -> None:
        self._closed = True
        await self._keeper.close()

    # ---- writes ----

    async def _put(self, path: str, value: bytes, options: PutOptions, session: int) -> Stat:
        expected = options.expected_version
        creates = expected == MUST_NOT_EXIST or (expected is None and options.ephemeral)
        for _ in range(MAX_RACES):
            stat = None if creates else await self._replace(path, value, options, session)
            if stat is None and expected in (None, MUST_NOT_EXIST):
                # the parent was deleted together with the last key below it
                with suppress(NodeExistsError, NoNodeError):
                    return await self._create(path, value, options, session)
                stat = await self._replace_found(path, value, options, session)
            if stat is not None:
                return stat
        raise StoreUnavailableError(
            path, f"put failed: other clients changed the key during each of {MAX_RACES} attempts. Try again."
        )

    async def _replace_found(self, path: str, value: bytes, options: PutOptions, session: int) -> Stat | None:
        """Continue a put whose node could not be created, because it exists or its parent was deleted: write the value
        of the existing node, and return the key's stat. Return None if the caller has to try the whole put again.
        """
        found = await self._stat(path, session)
        if found is None:
            return None
        if is_parent_only(found):
            return await self._fill(path, value, options, session)
        if options.expected_version == MUST_NOT_EXIST:
            raise BadVersionError(path, MUST_NOT_EXIST, found.version)
        return await self._replace(path, value, options, session)

    async def _replace(self, path: str, value: bytes, options: PutOptions, session: int) -> Stat | None:
        """Replace the value of a key that exists, and return its stat. If no version is expected, return None if the
        key does not exist, or if another client has changed it during this call.

        Raises:
            BadVersionError: the key does not have the expected version, or does not exist.
            OtherSessionError: the key has to be one that this session created, and is not.
        """
        expected = options.expected_version
        version = _ANY if expected is None else expected
        if options.if_own:
            found = await self._key_stat(path, session)
            if found is None:
                if expected is not None:
                    raise BadVersionError(path, expected, None)
                return None
            version = self._check_own(path, found, expected, session)
        elif expected == 0 and await self._key_stat(path, session) is None:
            raise BadVersionError(path, expected, None)
        try:
            stat = await self._set(path, value, version, session, options.guard)
        except (NoNodeError, OtherVersion):
            if expected is None:
                return None
            found = await self._key_stat(path, session)
            raise BadVersionError(path, expected, None if found is None else found.version) from None
        return stat_of(path, stat, session)

    async def _create(self, path: str, value: bytes, options: PutOptions, session: int) -> Stat:
        """Create the node of a key, and the nodes above it that do not exist. Return the key's stat.

        Raises:
            NodeExistsError: the node exists already.
            NoNodeError: another client deleted a node above it during this call; the key was not created.
        """
        if options.guard is not None:
            return await self._create_guarded(path, value, options, options.guard, session)

        def create(client: Any) -> Any:
            return client.create_async(
                self._node(path),
                value,
                ephemeral=options.ephemeral,
                sequence=options.sequential,
                makepath=True,
                include_data=True,
            )

        node, stat = await self._ask(path, session, create)
        return stat_of(key_of(self._root, node) or path, stat, session, created_now=True)

    async def _create_guarded(self, path: str, value: bytes, options: PutOptions, guard: Guard, session: int) -> Stat:
        """Create the node of a key, on condition that the key of `guard` has the version in `guard`. The nodes above it
        that do not exist are created first, without this condition.

        The times in the result are 0, because ZooKeeper's answer to a transaction has no times.
        """
        above = parent_path(path)
        if above is not None:
            await self._ask(path, session, lambda client: client.ensure_path_async(self._node(above)))
        node = await self._in_transaction(
            path,
            session,
            guard,
            lambda steps: steps.create(
                self._node(path), value, ephemeral=options.ephemeral, sequence=options.sequential
            ),
        )
        return Stat(key_of(self._root, node) or path, 0, 0, 0, options.ephemeral, True)

    async def _append(self, path: str, value: bytes, options: PutOptions, session: int) -> Stat:
        if options.expected_version not in (None, MUST_NOT_EXIST):
            raise BadVersionError(path, options.expected_version, None)
        for _ in range(MAX_RACES):
            with suppress(NoNodeError):
                return await self._create(path, value, options, session)
        raise StoreUnavailableError(
            path, f"put failed: other clients deleted the parent key during each of {MAX_RACES} attempts. Try again."
        )

    async def _fill(self, path: str, value: bytes, options: PutOptions, session: int) -> Stat | None:
        """Write `value` to a node that exists only as the parent of other nodes, so that it becomes a key. Return the
        key's stat.

        Return None if the caller has to try the put again: there were no nodes below this node any more, so it was
        deleted and can be created as a key; or another client changed it during this call.
        """
        with suppress(NoNodeError, NotEmptyError, OtherVersion):
            await self._ask(path, session, lambda client: client.delete_async(self._node(path), 0))
            return None
        if options.ephemeral:
            raise HasChildrenError(path)
        try:
            stat = await self._set(path, value, 0, session, options.guard)
        except (NoNodeError, OtherVersion):
            return None
        return stat_of(path, stat, session, created_now=True)

    async def _delete(
        self, path: str, expected: int | None, session: int, guard: Guard | None, *, if_own: bool
    ) -> None:
        version = _ANY if expected is None else expected
        if if_own:
            found = await self._key_stat(path, session)
            if found is None:
                raise NotFoundError(path)
            version = self._check_own(path, found, expected, session)
        elif expected in (None, 0) and await self._key_stat(path, session) is None:
            raise NotFoundError(path)
        try:
            if guard is None:
                await self._ask(path, session, lambda client: client.delete_async(self._node(path), version))
            else:
                await self._in_transaction(path, session, guard, lambda steps: steps.delete(self._node(path), version))
        except NoNodeError:
            raise NotFoundError(path) from None
        except NotEmptyError:
            found = await self._key_stat(path, session)
            if found is None:
                raise NotFoundError(path) from None
            raise HasChildrenError(path) from None
        except OtherVersion:
            found = await self._key_stat(path, session)
            if found is None:
                raise NotFoundError(path) from None
            raise BadVersionError(path, version, found.version) from None
        await self._delete_empty_parents(path, session)

    async def _delete_empty_parents(self, path: str, session: int) -> None:
        """Delete those nodes above the node of `path` that are not keys and have no children any more. If a request
        fails, raise no error, and leave the remaining nodes.
        """
        if is_numbered(path):
            return
        for parent in ancestors(path):
            node = self._node(parent)

            def delete(client: Any, node: str = node) -> Any:
                return client.delete_async(node, 0)

            try:
                stat = await self._stat(parent, session)
                if stat is None or stat.numChildren or not is_parent_only(stat):
                    return
                await self._ask(path, session, delete)
            except (KazooException, MetadataError):  # the key is deleted, which is what counts
                return

    def _check_own(self, path: str, found: Any, expected: int | None, session: int) -> int:
        """Check that the key has the expected version (None: any), and that this session created it. `found` is
        ZooKeeper's stat of the node. Return the key's version.

        Raises:
            BadVersionError: the key has another version.
            OtherSessionError: another session created the key, or it is not ephemeral.
        """
        if expected is not None and expected != found.version:
            raise BadVersionError(path, expected, found.version)
        if found.ephemeralOwner != session:
            raise OtherSessionError(path, expected, found.version)
        version: int = found.version
        return version

    # ---- requests ----

    def _node(self, path: str) -> str:
        return node_of(self._root, path)

    def _writer(self, path: str) -> int:
        """Check that the key `path` can be written now, and return the current session, in which to write it.

        Raises:
            InvalidPathError, StoreClosedError: the path is not valid, or the store is closed.
            SessionLostError: there is no session now.
        """
        self._session = self._keeper.session
        session = self._writing(path)
        check_node_path(path)
        return session

    async def _set(self, path: str, value: bytes, version: int, session: int, guard: Guard | None) -> Any:
        """Write the value of a node that exists, if it has `version` (-1: any) and the condition `guard` is met. Return
        ZooKeeper's stat of the node.
        """
        node = self._node(path)
        if guard is None:
            return await self._ask(path, session, lambda client: client.set_async(node, value, version))
        return await self._in_transaction(path, session, guard, lambda steps: steps.set_data(node, value, version))

    async def _in_transaction(self, path: str, session: int, guard: Guard, add: Callable[[Any], None]) -> Any:
        """Execute a transaction of two steps: check that the key of `guard` has the version in `guard`, and the step
        that the function `add` adds to the transaction. Return ZooKeeper's result of the second step.

        Raises:
            GuardError: the guard's key has another version, or does not exist (also if its node exists only as a
                parent).
            KazooException: ZooKeeper refused the second step, or did not answer.
        """

        def commit(client: Any) -> Any:
            steps = client.transaction()
            steps.check(self._node(guard.path), guard.version)
            add(steps)
            return steps.commit_async()

        if guard.version == 0 and await self._key_stat(guard.path, session) is None:
            raise GuardError(guard.path, guard.version, None)
        checked, done = await self._ask(path, session, commit)
        if isinstance(checked, (NoNodeError, OtherVersion)):
            found = await self._key_stat(guard.path, session)
            raise GuardError(guard.path, guard.version, None if found is None else found.version)
        for refused in (checked, done):
            if isinstance(refused, Exception) and not isinstance(refused, RolledBackError):
                raise refused
        return done

    async def _stat(self, path: str, session: int | None) -> Any:
        """Return ZooKeeper's stat of the node of `path`; None if the node does not exist. If `session` is given, read
        only in this session.
        """
        return await self._ask(path, session, lambda client: client.exists_async(self._node(path)))

    async def _key_stat(self, path: str, session: int) -> Any:
        """Return ZooKeeper's stat of the key `path`; None if the key does not exist: there is no node, or the node
        exists only as a parent.

        The version alone does not show this: a node that is only a parent has version 0, like a new key.
        """
        stat = await self._stat(path, session)
        return None if stat is None or is_parent_only(stat) else stat

    async def _ask(self, path: str, session: int | None, ask: Ask) -> Any:
        """Send one request, and return ZooKeeper's answer. Wait first until the session is connected. If `session` is
        given and is not the current session any more, send nothing.

        Raises:
            SessionLostError: `session` has ended; nothing was sent.
            StoreUnavailableError: there is no session; nothing was sent.
            KazooException: ZooKeeper refused the request, or did not answer.
        """
        await self._keeper.wait_connected()
        if self._closed:
            raise StoreClosedError(path)
        if session is not None and session != self._keeper.session:
            raise SessionLostError(path, "the session has ended, so the request was not sent")
        if self._keeper.session is None:
            raise StoreUnavailableError(
                path, "there is no session with ZooKeeper now, so the request was not sent. Try again."
            )
        return await self._keeper.link_of(session).ask(ask)

    async def _operate(self, path: str, operate: Callable[[], Awaitable[Result]]) -> Result:
        self._check_open(path)
        check_node_path(path)
        try:
            async with asyncio.timeout(self._operation_timeout_s), self._turns:
                return await operate()
        except TimeoutError:
            detail = (
                f"no answer of ZooKeeper within {self._operation_timeout_s:g} s: it"
                " is unknown whether it executed the request"
            )
            raise StoreUnavailableError(path, detail) from None
        except KazooException as error:
            refusal = refusal_of(path, error)
            if isinstance(refusal, SessionLostError):
                self._keeper.on_expired_by_answer()
            raise refusal from error

    def _on_event(self, kind: int, node: str) -> None:
        path = key_of(self._root, node)
        if path is not None and kind in _NOTIFICATION_TYPES:
            self._listeners.change(Notification(_NOTIFICATION_TYPES[kind], path))
