"""A cluster for tests, with a synchronous and an asynchronous interface.

Both have the same methods. `AsyncCluster` does the work on the running event loop; `Cluster` has an
`AsyncCluster` on a thread of its own and waits for it.
"""

import asyncio
import difflib
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar
from urllib.parse import quote

from pulsar_barycenter.admin.errors import AdminRequestError
from pulsar_barycenter.config.broker_conf import FORMER_NAMES, keys
from pulsar_barycenter.naming.topic import TopicName
from pulsar_barycenter.standalone.cluster import OWN_KEYS, ClusterSettings
from pulsar_barycenter.standalone.data_directory import DataDirectory, DataDirectoryLock
from pulsar_barycenter.standalone.ephemeral import ephemeral_folder
from pulsar_barycenter.standalone.scheduling import imports_without_collections
from pulsar_barycenter.testing.brokers import Brokers, ClusterBroker, RunningBroker
from pulsar_barycenter.testing.errors import NotBalancedError, TestClusterError, UnknownBrokerError
from pulsar_barycenter.testing.loop_thread import LoopThread
from pulsar_barycenter.testing.processes import ProcessBrokers

if TYPE_CHECKING:
    from pulsar_barycenter.admin.client import AdminClient

T = TypeVar("T")

AnyBroker: TypeAlias = ClusterBroker | int
"""A broker of `cluster.brokers`, or its index."""

_QUICK: Final[Mapping[str, str]] = {
    "metadataStoreSessionTimeoutMillis": "3000",
    "loadBalancerReportUpdateMinIntervalMillis": "1000",
    "loadBalancerHostUsageCheckIntervalMinutes": "0.05",
}
"""Settings for short waits in tests: the session of a killed broker ends, and load reports come, within seconds."""
_POLL_S: Final = 0.1
_BALANCED: Final = frozenset({"balanced", "as even as bundles allow"})


class AsyncCluster:
    """A cluster of brokers on loopback. Use it as `async with Cluster(…) as cluster`.

    Args:
        brokers: How many brokers, at least 1.
        config: Keys of broker.conf, the same for all brokers. Values are written as `str(value)`; True and False as
            `true` and `false`.
        data: The folder of all state; it stays when the cluster has stopped. None: a temporary folder that is removed
            then.
        pipeline: Run the load-data pipeline, too; needs PySpark and Java, and its start takes several seconds.
        in_process: Run the broker inside this process; for one broker without pipeline.
        broker_port: The port of the first broker for Pulsar clients, such as 6650 for a program whose address is fixed;
            the brokers after it have the next ports. 0: the system chooses the port of each broker.
        web_port: The port of the first broker for HTTP, with the same rules.

    Raises:
        TestClusterError: the arguments contradict each other, or a key of `config` is unknown or set by the cluster.

    >>> import asyncio
    >>> async def first_owner():
    ...     async with AsyncCluster(in_process=True) as cluster:
    ...         await cluster.create_namespace("public/orders", bundles=8)
    ...         return (await cluster.owner("persistent://public/orders/new")).index
    >>> asyncio.run(first_owner())
    0
    """

    def __init__(
        self,
        brokers: int = 1,
        config: Mapping[str, object] | None = None,
        *,
        data: Path | str | None = None,
        pipeline: bool = False,
        in_process: bool = False,
        broker_port: int = 0,
        web_port: int = 0,
    ) -> None:
        if brokers < 1:
            raise TestClusterError(f"a cluster has at least 1 broker, not {brokers}")
        if in_process and (brokers > 1 or pipeline):
            raise TestClusterError("in_process runs one broker without pipeline: leave out brokers and pipeline")
        self._count = brokers
        self._config = {**_QUICK, **{key: _checked(key, value) for key, value in (config or {}).items()}}
        self._data = None if data is None else Path(data).absolute()
        self._pipeline = pipeline
        self._broker_port, self._web_port = broker_port, web_port
        self._new_brokers: Callable[[ClusterSettings], Brokers] = _in_process if in_process else ProcessBrokers
        self._opened = AsyncExitStack()
        self._folder: Path | None = None
        self._is_stopped = False
        self._brokers: Sequence[RunningBroker] = ()
        self._client: AdminClient | None = None

    async def __aenter__(self) -> "AsyncCluster":
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        """Start all brokers and return when all of them serve clients.

        Raises:
            StandaloneError: a broker does not start, or another cluster runs on the folder. Everything that was started
                is ended.
        """
        if self._folder is not None:
            raise TestClusterError(
                "this cluster object was started already, and can be started only once; create a new object"
            )
        async with AsyncExitStack() as opened:
            folder = opened.enter_context(ephemeral_folder()) if self._data is None else self._data
            directory = DataDirectory(folder)
            opened.enter_context(DataDirectoryLock(directory))
            brokers = self._new_brokers(
                ClusterSettings(
                    directory,
                    brokers=self._count,
                    web_port=self._web_port,
                    broker_port=self._broker_port,
                    configuration=self._config,
                    pipeline=self._pipeline,
                    restart=False,
                    ephemeral=self._data is None,
                )
            )
            opened.push_async_callback(brokers.kill)
            await brokers.start()
            opened.push_async_callback(brokers.stop)
            opened.push_async_callback(self._close_client)
            self._brokers, self._folder = brokers.brokers, folder
            self._opened = opened.pop_all()

    async def stop(self) -> None:
        """Let all brokers leave the cluster and end, and remove the data folder unless the caller named its folder.
        Idempotent.
        """
        self._is_stopped = True
        for broker in self._brokers:
            if broker.is_running and self._count > 1:
                broker.resume()
        await self._opened.aclose()

    @property
    def brokers(self) -> Sequence[ClusterBroker]:
        """All brokers, also those that do not run."""
        return self._brokers

    @property
    def data(self) -> Path:
        """The data folder; logs of brokers are in `logs`."""
        if self._folder is None:
            raise TestClusterError("the cluster was not started: use it in a `with` statement")
        return self._folder

    @property
    def service_url(self) -> str:
        """The service URL of all brokers, for Pulsar clients: `pulsar://HOST:PORT,HOST:PORT`."""
        return "pulsar://" + ",".join(broker.service_url.partition("://")[2] for broker in self._brokers)

    @property
    def admin_url(self) -> str:
        """The HTTP URL of the first of the running brokers, for `pulsar-admin` and other HTTP clients.

        Raises:
            TestClusterError: no broker runs.
        """
        for broker in self._brokers:
            if broker.is_running:
                return broker.web_url
        raise TestClusterError("no broker runs: start one with `restart`")

    async def admin(self, method: str, path: str, body: Any = None) -> Any:
        """Send a request to the admin REST API, with `body` as JSON unless it is None, and return the JSON of the
        answer.

        An empty answer is returned as None, plain text as a str. `path` begins with `/admin/v2` or another root of the
        API; redirects are followed.

        Raises:
            AdminRequestError: the answer is an error, or there is none.
            TestClusterError: `path` does not begin with `/`, or no broker runs.
        """
        if not path.startswith("/"):
            raise TestClusterError(f"the path {path!r} has to begin with /, such as /admin/v2/clusters")
        url = self.admin_url
        return await self._admin_client().call(method, url, path, body=body, or_text=True)

    async def create_namespace(self, name: str, bundles: int = 4) -> None:
        """Create a namespace such as `public/orders` with `bundles` bundles of equal size.

        Raises:
            AdminRequestError: the namespace exists (status 409), or its tenant does not exist (404).
            TestClusterError: `name` does not have the form `TENANT/NAMESPACE`.
        """
        if name.count("/") != 1:
            raise TestClusterError(f"{name!r} is not a namespace: give TENANT/NAMESPACE, such as public/orders")
        await self.admin("PUT", f"/admin/v2/namespaces/{name}", {"bundles": {"numBundles": bundles}})

    async def owner(self, topic: str) -> ClusterBroker:
        """Return the broker that owns the topic's bundle; a bundle without an owner is assigned first.

        Raises:
            AdminRequestError: no broker could be found.
            TestClusterError: the owner is a broker that this object did not start.
        """
        answer = await self.admin("GET", f"/lookup/v2/topic/{_topic_path(topic)}")
        for broker in self._brokers:
            if broker.service_url == answer["brokerUrl"]:
                return broker
        raise TestClusterError(f"{topic} is owned by {answer['brokerUrl']}, a broker that this cluster did not start")

    async def unload(self, name: str) -> None:
        """Unload a topic, all bundles of a namespace, or one bundle, and return when the unload is done.

        `name` is a topic (`persistent://tenant/namespace/topic`, or its short name), a namespace (`tenant/namespace`),
        or a bundle (`tenant/namespace/0x00000000_0x40000000`). Clients connect again by themselves.

        Raises:
            AdminRequestError: `name` does not exist, or cannot be unloaded.
        """
        await self.admin("PUT", f"/admin/v2/{_unloaded_path(name)}/unload")

    async def kill(self, broker: AnyBroker) -> None:
        """End a broker immediately, as a crash would. The other brokers own its bundles once its session has expired (3
        s).
        """
        await self._broker(broker).kill()

    async def pause(self, broker: AnyBroker) -> None:
        """Stop all threads of a broker until `resume` is called, as a long pause of the machine would. Its connections
        stay open.
        """
        self._broker(broker).pause()

    async def resume(self, broker: AnyBroker) -> None:
        """Let a paused broker continue."""
        self._broker(broker).resume()

    async def restart(self, broker: AnyBroker) -> None:
        """If a broker runs, let it leave the cluster and end. Then start it again with the same ports, and return when
        it serves clients.
        """
        chosen = self._broker(broker)
        if self._is_stopped:
            raise TestClusterError(
                "this cluster object was stopped, and its brokers cannot be started again; create a new object"
            )
        await chosen.stop()
        await chosen.start()

    async def wait_until_balanced(self, timeout_s: float = 60.0) -> None:
        """Return when the leader would not move anything: usages are even, or moves cannot make them more even.

        The measure is `GET /barycenter/v1/balance`. A cluster of one broker that runs is balanced.

        Raises:
            NotBalancedError: the cluster was not balanced within `timeout_s` seconds; the text has the usages.
        """
        state = "no broker has answered"
        try:
            async with asyncio.timeout(timeout_s):
                while sum(broker.is_running for broker in self._brokers) > 1:
                    try:
                        balance = (await self.admin("GET", "/barycenter/v1/balance"))["balance"]
                    except AdminRequestError as error:
                        state = str(error)  # no leader yet, or its connection broke
                    else:
                        if balance["state"] in _BALANCED:
                            return
                        state = balance["sentence"]
                    await asyncio.sleep(_POLL_S)
        except TimeoutError:
            raise NotBalancedError(timeout_s, state) from None

    def _admin_client(self) -> "AdminClient":
        if self._client is None:
            # imports an HTTP client, for which the start of a cluster does not wait
            from pulsar_barycenter.admin.client import AdminClient

            self._client = AdminClient()
        return self._client

    async def _close_client(self) -> None:
        if self._client is not None:
            await self._client.close()

    def _broker(self, broker: AnyBroker) -> RunningBroker:
        for index, found in enumerate(self._brokers):
            if found is broker or (index == broker and not isinstance(broker, bool)):
                return found
        raise UnknownBrokerError(broker, len(self._brokers))


class Cluster:
    """A cluster of brokers on loopback, for tests.

    `with Cluster(brokers=3) as cluster` starts it and ends it; `async with` gives the `AsyncCluster`. Arguments,
    methods and errors are those of `AsyncCluster`; here each method blocks the calling thread until the work is done.

    >>> with Cluster(in_process=True) as cluster:
    ...     cluster.create_namespace("public/orders", bundles=8)
    ...     cluster.owner("persistent://public/orders/new").index
    0
    """

    def __init__(
        self,
        brokers: int = 1,
        config: Mapping[str, object] | None = None,
        *,
        data: Path | str | None = None,
        pipeline: bool = False,
        in_process: bool = False,
        broker_port: int = 0,
        web_port: int = 0,
    ) -> None:
        self._cluster = AsyncCluster(
            brokers,
            config,
            data=data,
            pipeline=pipeline,
            in_process=in_process,
            broker_port=broker_port,
            web_port=web_port,
        )
        self._thread: LoopThread | None = None

    def __enter__(self) -> "Cluster":
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    async def __aenter__(self) -> AsyncCluster:
        return await self._cluster.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._cluster.__aexit__(kind, error, trace)

    def start(self) -> None:
        """Start all brokers and return when all of them serve clients. Raises the errors of `AsyncCluster.start`."""
        if self._thread is not None:
            raise TestClusterError(
                "this cluster object was started already, and can be started only once; create a new object"
            )
        thread = LoopThread("barycenter-cluster")
        try:
            thread.run(self._cluster.start())
        except BaseException:
            thread.close()
            raise
        self._thread = thread

    def stop(self) -> None:
        """Let all brokers leave the cluster and end, and remove the data folder unless the caller named its folder.
        Idempotent.
        """
        if self._thread is not None:
            thread, self._thread = self._thread, None
            try:
                thread.run(self._cluster.stop())
            finally:
                thread.close()

    @property
    def brokers(self) -> Sequence[ClusterBroker]:
        """All brokers, also those that do not run."""
        return self._cluster.brokers

    @property
    def data(self) -> Path:
        """The data folder; logs of brokers are in `logs`."""
        return self._cluster.data

    @property
    def service_url(self) -> str:
        """The service URL of all brokers, for Pulsar clients: `pulsar://HOST:PORT,HOST:PORT`."""
        return self._cluster.service_url

    @property
    def admin_url(self) -> str:
        """The HTTP URL of the first broker that runs, for `pulsar-admin` and other HTTP clients."""
        return self._cluster.admin_url

    def admin(self, method: str, path: str, body: Any = None) -> Any:
        """Send a request to the admin REST API and return the JSON of the answer; None if it is empty. The details are
        those of `AsyncCluster.admin`.
        """
        return self._run(self._cluster.admin(method, path, body))

    def create_namespace(self, name: str, bundles: int = 4) -> None:
        """Create a namespace such as `public/orders` with `bundles` bundles of equal size."""
        self._run(self._cluster.create_namespace(name, bundles))

    def owner(self, topic: str) -> ClusterBroker:
        """Return the broker that owns the topic's bundle; a bundle without an owner is assigned first."""
        return self._run(self._cluster.owner(topic))

    def unload(self, name: str) -> None:
        """Unload a topic, all bundles of a namespace, or one bundle, and return when the unload is done."""
        self._run(self._cluster.unload(name))

    def kill(self, broker: AnyBroker) -> None:
        """End a broker immediately, as a crash would. The other brokers own its bundles once its session has expired (3
        s).
        """
        self._run(self._cluster.kill(broker))

    def pause(self, broker: AnyBroker) -> None:
        """Stop all threads of a broker until `resume` is called, as a long pause of the machine would. Its connections
        stay open.
        """
        self._run(self._cluster.pause(broker))

    def resume(self, broker: AnyBroker) -> None:
        """Let a paused broker continue."""
        self._run(self._cluster.resume(broker))

    def restart(self, broker: AnyBroker) -> None:
        """If a broker runs, let it leave the cluster and end. Then start it again with the same ports, and return when
        it serves clients.
        """
        self._run(self._cluster.restart(broker))

    def wait_until_balanced(self, timeout_s: float = 60.0) -> None:
        """Return when the leader would not move anything; raises NotBalancedError after `timeout_s` seconds."""
        self._run(self._cluster.wait_until_balanced(timeout_s))

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        if self._thread is None:
            work.close()
            raise TestClusterError("the cluster does not run: use it in a `with` statement")
        return self._thread.run(work)


def _in_process(settings: ClusterSettings) -> Brokers:
    # imports a whole broker, which a cluster of processes does without
    with imports_without_collections():
        from pulsar_barycenter.testing.in_process import InProcessBrokers

    return InProcessBrokers(settings)


def _checked(key: str, value: object) -> str:
    """Return a value as text for broker.conf.

    Raises:
        TestClusterError: brokers do not know the key, the cluster sets it itself, or the value has several lines.
    """
    if key in OWN_KEYS:
        raise TestClusterError(f"config: the cluster sets {key} itself; leave this key out")
    if key not in keys() and key not in FORMER_NAMES:
        near = difflib.get_close_matches(key, keys(), n=1)
        raise TestClusterError(
            f"config: {key!r} is not a key of broker.conf{f'; did you mean {near[0]}?' if near else ''}"
        )
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if "\n" in text or "\r" in text or text.endswith("\\"):
        raise TestClusterError(f"config: the value of {key} has more than one line, or ends with a backslash")
    return text


def _topic_path(topic: str) -> str:
    return quote(TopicName.parse(topic).lookup_name, safe="/")


def _unloaded_path(name: str) -> str:
    """Return the part of an admin path after /admin/v2/ for the topic, the namespace or the bundle with this name."""
    parts = name.split("/")
    if "://" in name or len(parts) == 1:
        return _topic_path(name)
    if len(parts) == 3 and parts[2].startswith("0x"):
        return f"namespaces/{quote(name, safe='/')}"
    if len(parts) == 2:
        return f"namespaces/{quote(name, safe='/')}"
    return _topic_path(name)
