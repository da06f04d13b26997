"""A metadata store in ZooKeeper: the operations, and how they become requests.

See `session_keeper` for the session. ZooKeeper decides versions itself; what it cannot decide is looked at a request
earlier: whether a key is this session's own (`if_own`), and whether a node is a key at all. A guarded write is one
transaction with the check of its guard. Nothing whose outcome is unknown is asked again.
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
    is_mere_parent,
    is_numbered,
    key_of,
    node_of,
    refusal_of,
    stat_of,
)
from pulsar_barycenter.metadata.zookeeper.session_keeper import SessionKeeper
from pulsar_barycenter.metadata.zookeeper.session_link import CHANGED, CREATED, DELETED, Ask, SessionLink
from pulsar_barycenter.metadata.zookeeper.settings import ZooKeeperSettings

MAX_IN_FLIGHT: Final = 256
"""Operations of one store that await ZooKeeper; more wait their turn, so that a thousand locks that come back at once
do not fill a server's queue (its globalOutstandingLimit is 1,000)."""

MAX_RACES: Final = 20
"""How often one operation starts over because others changed what it looked at."""

_TOLD: Final = {
    CREATED: NotificationType.CREATED,
    CHANGED: NotificationType.MODIFIED,
    DELETED: NotificationType.DELETED,
}
_ANY: Final = -1

Result = TypeVar("Result")


class ZooKeeperStore(StoreClient):
    """One session with ZooKeeper; see `MetadataStore` for the contract. Made by `open`."""

    def __init__(
        self, hosts: str, root: str, timeout_s: float, operation_timeout_s: float, settings: ZooKeeperSettings
    ) -> None:
        super().__init__(SystemClock(), None)  # of times, the servers tell
        self._root = root
        self._operation_timeout_s = operation_timeout_s
        self._turns = asyncio.Semaphore(MAX_IN_FLIGHT)
        self._keeper = SessionKeeper(
            lambda audience: SessionLink(hosts, root or "/", timeout_s, settings, audience),
            self._listeners,
            self._hear_event,
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
        """Open a session with the servers `HOST:PORT,HOST:PORT`, below `/PATH` if that follows them; the path is made.

        The servers decide between which bounds a session timeout lies. An operation fails after `operation_timeout_s`.
        Times in a Stat are the servers' own.

        Raises:
            StoreUnavailableError: no server answered within `operation_timeout_s`.
            MetadataError: a server is older than ZooKeeper 3.6.
            InvalidPathError: there can be no such path.
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
            trouble = store._keeper.link_of(None).trouble
            await store.close()
            raise StoreUnavailableError(
                "/",
                f"no ZooKeeper answered at {hosts} within {operation_timeout_s:g} s" + (trouble and f" ({trouble})"),
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
            if path == "/" or is_mere_parent(stat):
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
            return path != "/" and stat is not None and not is_mere_parent(stat)

        return await self._operate(path, exists)

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
                with suppress(NodeExistsError, NoNodeError):  # what lies above went, with the last key below it
                    return await self._create(path, value, options, session)
                stat = await self._replace_found(path, value, options, session)
            if stat is not None:
                return stat
        raise StoreUnavailableError(path, f"others changed it {MAX_RACES} times while it was to be written")

    async def _replace_found(self, path: str, value: bytes, options: PutOptions, session: int) -> Stat | None:
        """Write where a node was in the way of a new one. Return None if that is to be tried anew."""
        found = await self._stat(path, session)
        if found is None:
            return None
        if is_mere_parent(found):
            return await self._fill(path, value, options, session)
        if options.expected_version == MUST_NOT_EXIST:
            raise BadVersionError(path, MUST_NOT_EXIST, found.version)
        return await self._replace(path, value, options, session)

    async def _replace(self, path: str, value: bytes, options: PutOptions, session: int) -> Stat | None:
        """Write where a key is. Return None if no version is expected and there is none, or another."""
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
        """Create a node, and what is missing above it.

        Raises:
            NodeExistsError: there is one.
            NoNodeError: somebody deleted meanwhile what is above it; nothing was created.
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
        """The same; what is missing above it is made before. A transaction does not tell the times."""
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
        raise StoreUnavailableError(path, f"others deleted what is above it {MAX_RACES} times")

    async def _fill(self, path: str, value: bytes, options: PutOptions, session: int) -> Stat | None:
        """Make a key of a node that is a mere parent. Return None if that is to be tried anew: nothing lay below it any
        more and it is gone, or somebody changed it meanwhile.
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
        """Delete the mere parents that nothing lies below any more."""
        if is_numbered(path):
            return
        for parent in ancestors(path):
            node = self._node(parent)

            def delete(client: Any, node: str = node) -> Any:
                return client.delete_async(node, 0)

            try:
                stat = await self._stat(parent, session)
                if stat is None or stat.numChildren or not is_mere_parent(stat):
                    return
                await self._ask(path, session, delete)
            except (KazooException, MetadataError):  # the key is gone, and that is what counts
                return

    def _check_own(self, path: str, found: Any, expected: int | None, session: int) -> int:
        """Return the version to write over, that of this session's own key."""
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
        """Return the session that writes; see `StoreClient._writing`."""
        self._session = self._keeper.session
        session = self._writing(path)
        check_node_path(path)
        return session

    async def _set(self, path: str, value: bytes, version: int, session: int, guard: Guard | None) -> Any:
        """Have a node hold `value` and return its stat, as ZooKeeper tells it."""
        node = self._node(path)
        if guard is None:
            return await self._ask(path, session, lambda client: client.set_async(node, value, version))
        return await self._in_transaction(path, session, guard, lambda steps: steps.set_data(node, value, version))

    async def _in_transaction(self, path: str, session: int, guard: Guard, add: Callable[[Any], None]) -> Any:
        """Do the one step that `add` adds if the guard holds, and return what ZooKeeper says of that step.

        Raises:
            GuardError: the guard does not hold; a mere parent is at no version.
            KazooException: what ZooKeeper refused the step with, or that it did not answer.
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
        """Return the node's stat, or None if there is none."""
        return await self._ask(path, session, lambda client: client.exists_async(self._node(path)))

    async def _key_stat(self, path: str, session: int) -> Any:
        """The same; None also if the node is a mere parent, which is at version 0 for ZooKeeper, as a new key is."""
        stat = await self._stat(path, session)
        return None if stat is None or is_mere_parent(stat) else stat

    async def _ask(self, path: str, session: int | None, ask: Ask) -> Any:
        """Send one request, if a session is given only of that one.

        Raises:
            SessionLostError: the given session has ended, and nothing was sent.
            StoreUnavailableError: there is no session, and nothing was sent.
            KazooException: what ZooKeeper answered, or that it did not.
        """
        await self._keeper.wait_connected()
        if self._closed:
            raise StoreClosedError(path)
        if session is not None and session != self._keeper.session:
            raise SessionLostError(path, "the session has ended; nothing was asked")
        if self._keeper.session is None:
            raise StoreUnavailableError(path, "there is no session now; nothing was asked")
        return await self._keeper.link_of(session).ask(ask)

    async def _operate(self, path: str, operate: Callable[[], Awaitable[Result]]) -> Result:
        self._check_open(path)
        check_node_path(path)
        try:
            async with asyncio.timeout(self._operation_timeout_s), self._turns:
                return await operate()
        except TimeoutError:
            detail = f"no answer of ZooKeeper within {self._operation_timeout_s:g} s: whether it acted is unknown"
            raise StoreUnavailableError(path, detail) from None
        except KazooException as error:
            refusal = refusal_of(path, error)
            if isinstance(refusal, SessionLostError):
                self._keeper.hear_expired_by_answer()
            raise refusal from error

    def _hear_event(self, kind: int, node: str) -> None:
        path = key_of(self._root, node)
        if path is not None and kind in _TOLD:
            self._listeners.change(Notification(_TOLD[kind], path))
