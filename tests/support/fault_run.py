"""Faults of a running cluster of processes and its store, one after the other, under traffic.

Each fault is begun, outlasted and ended here. The time without service of clients is measured. At the end the run
proves that nothing was lost, nothing arrived out of order, and no two brokers served one bundle.
"""

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

from pulsar_barycenter.standalone.cluster import BrokerProcess, StandaloneCluster
from support.cluster_rehearsal import BUSY, Manager, Rehearsal, Size
from support.fault_schedule import KINDS, Begun, Fault, Kind, Outcome
from support.fault_stores import Node, Server, Store
from support.loopback_proxy import LoopbackProxy, loopback_proxy
from support.running_cluster import Admin, eventually, running_cluster
from support.serving_intervals import conflicts, read_terms
from support.traffic import Traffic

SESSION_S: Final = 3.0
SERVED_S: Final = 30.0
"""Within what every client gets through when a fault is over."""
_LOOK_AGAIN_S: Final = 0.05
BROKERS: Final = 3
TOPICS: Final = 6
CONFIGURATION: Final = {
    "metadataStoreSessionTimeoutMillis": str(round(SESSION_S * 1000)),
    "loadBalancerSheddingEnabled": "false",
}


class FaultRun(Rehearsal):
    """`proxies` are between one of the brokers, `PROXIED`, and the nodes of the store, if there can be any."""

    PROXIED: Final = 0

    def __init__(
        self,
        cluster: StandaloneCluster,
        admin: Admin,
        traffic: Traffic,
        seed: int,
        store: Store,
        proxies: Sequence[LoopbackProxy],
    ) -> None:
        super().__init__(cluster, admin, Manager({}), Size(1, TOPICS, seed), traffic)
        self.store = store
        self.proxies = proxies
        self.begun: list[Begun] = []
        self._is_over = asyncio.Event()

    async def befall(self, fault: Fault) -> Outcome:
        """Begin a fault, end it, and return when every producer succeeded again and all brokers name one owner."""
        self.begun.append(Begun(fault, time.time_ns() // 1_000_000))
        watching = asyncio.ensure_future(self._longest_silence())
        try:
            undo = await self._strike(fault)
            await asyncio.sleep(fault.for_sessions * SESSION_S)
            await undo()
            await self.traffic.gets_through(within_s=SERVED_S)
        finally:
            self._is_over.set()
            silence_s = await watching
        await self.one_owner(self.topics)
        return Outcome(self.store.name, fault, silence_s)

    async def _longest_silence(self) -> float:
        """Return the longest time for which a producer got no acknowledgement, until the fault is over."""
        loop = asyncio.get_running_loop()
        self._is_over.clear()
        heard = {each: (len(each.acknowledged), loop.time()) for line in self.traffic.busy for each in line.steady}
        longest_s = 0.0
        while not self._is_over.is_set():
            await asyncio.sleep(_LOOK_AGAIN_S)
            now = loop.time()
            for producer, (count, since) in heard.items():
                longest_s = max(longest_s, now - since)
                if len(producer.acknowledged) > count:
                    heard[producer] = len(producer.acknowledged), now
        return longest_s

    async def _strike(self, fault: Fault) -> Callable[[], Awaitable[None]]:
        """Begin a fault; return the function that ends it."""
        topic = self.topics[fault.pick % len(self.topics)]
        match fault.kind:
            case Kind.KILL_OWNER:
                return await self._kill(await self.owner(topic))
            case Kind.KILL_LEADER:
                return await self._kill(await self.leader())
            case Kind.STOP_OWNER:
                return await self._stop(await self.owner(topic))
            case Kind.STOP_LEADER:
                return await self._stop(await self.leader())
            case Kind.CUT_FROM_STORE | Kind.DELAY_STORE:
                return self._disturb(hold_answers=fault.kind is Kind.DELAY_STORE)
            case Kind.KILL_BOOKIE:
                return await self._kill_server(self._bookie(fault.pick))
            case Kind.STOP_BOOKIE:
                return self._stop_server(self._bookie(fault.pick))
        leads = fault.kind in (Kind.KILL_STORE_LEADER, Kind.STOP_STORE_LEADER)
        node = await self._node(fault.pick, leads=leads)
        if fault.kind in (Kind.KILL_STORE_LEADER, Kind.KILL_STORE_NODE):
            return await self._kill_server(node)
        return self._stop_server(node)

    async def _node(self, pick: int, *, leads: bool) -> Node:
        leaders: list[Node] = []

        async def is_led() -> bool:
            leader = await asyncio.to_thread(self.store.leader)
            leaders[:] = [] if leader is None else [leader]
            return leader is not None

        await eventually(is_led, within_s=SERVED_S, what="the store has a leader")
        nodes = [node for node in self.store.nodes if (node in leaders) == leads]
        return nodes[pick % len(nodes)]

    def _bookie(self, pick: int) -> Server:
        return self.store.bookies[pick % len(self.store.bookies)]

    async def _kill(self, victim: BrokerProcess) -> Callable[[], Awaitable[None]]:
        await self.cluster.kill_broker(victim)

        async def start() -> None:
            await self.start_again(victim)

        return start

    async def _stop(self, victim: BrokerProcess) -> Callable[[], Awaitable[None]]:
        if self.store.nodes:
            victim.signal(signal.SIGSTOP)
        else:
            await self._stop_outside_the_store(victim)

        async def go_on() -> None:
            victim.signal(signal.SIGCONT)

        return go_on

    def _disturb(self, *, hold_answers: bool) -> Callable[[], Awaitable[None]]:
        for proxy in self.proxies:
            if hold_answers:
                proxy.hold_answers()
            else:
                proxy.cut()

        async def heal() -> None:
            for proxy in self.proxies:
                proxy.heal()

        return heal

    async def _kill_server(self, server: Server) -> Callable[[], Awaitable[None]]:
        await asyncio.to_thread(server.kill)

        async def start() -> None:
            server.start()
            assert await asyncio.to_thread(server.wait_ready)

        return start

    def _stop_server(self, server: Server) -> Callable[[], Awaitable[None]]:
        server.signal(signal.SIGSTOP)

        async def go_on() -> None:
            server.signal(signal.SIGCONT)
            assert await asyncio.to_thread(server.wait_ready)

        return go_on


@asynccontextmanager
async def fault_run(
    folder: Path, store: Store, seed: int, configuration: Mapping[str, str] | None = None
) -> AsyncIterator[FaultRun]:
    """Run a cluster on a store, with traffic; on leaving, prove that nothing was lost, reordered or served by two,
    and that the store is sound.

    `configuration` overrides that of all brokers.
    """
    async with AsyncExitStack() as stack:
        between = store.nodes if Kind.CUT_FROM_STORE in KINDS[store.name] else ()
        proxies = [await stack.enter_async_context(loopback_proxy(node.endpoint)) for node in between]
        urls = [store.url([node.endpoint for node in store.nodes])] * BROKERS
        if proxies:
            urls[FaultRun.PROXIED] = store.url([proxy.endpoint for proxy in proxies])
        keys = {**CONFIGURATION, **store.configuration, **(configuration or {})}
        async with running_cluster(
            folder,
            brokers=BROKERS,
            configuration=keys,
            metadata_store_urls=urls,
            has_own_folders=bool(store.bookies),
        ) as (cluster, admin):
            await admin.create_namespace(str(BUSY), 4)
            traffic = await asyncio.to_thread(
                Traffic,
                cluster.service_url,
                busy=[f"persistent://{BUSY}/topic-{number}" for number in range(TOPICS)],
                quiet=[],
                pause_s=0.03,
            )
            try:
                run = FaultRun(cluster, admin, traffic, seed, store, proxies)
                yield run
                await traffic.finish(cluster.service_url)
            finally:
                await asyncio.to_thread(traffic.close)
            logs = [broker.log for broker in cluster.brokers]
        terms = read_terms(logs)
        assert conflicts(terms) == []
        assert any(term.bundle.namespace == BUSY and term.first_acknowledged_ms is not None for term in terms)
        await store.check(run.begun)
