"""The strategies that are compared, and a running cluster of each, with clients that follow a load."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from benchmarks.cluster import running_cluster
from benchmarks.cluster_days.loads import BROKERS, BUNDLES, NAMESPACE, Load
from benchmarks.manager_comparison.managers import BALANCING_KEYS, FASTER
from pulsar_barycenter.admin.client import AdminClient
from pulsar_barycenter.admin.errors import AdminRequestError
from pulsar_barycenter.demo.plan import ClientLine, ClientResult
from pulsar_barycenter.load.managers import MANAGER_KEY, ManagerKind
from pulsar_barycenter.standalone.cluster import BrokerProcess, StandaloneCluster

_SHEDDING_KEY: Final = "loadBalancerLoadSheddingStrategy"
_PLACEMENT_KEY: Final = "loadBalancerLoadPlacementStrategy"
_PLACED_WITHIN_S: Final = 60.0
_IS_THERE: Final = 412
"""The answer where the destination already owns the bundle."""
_IS_ON_KEY: Final = "loadBalancerSheddingEnabled"
_USUAL_BYTES: Final = 1.25e9
"""What a broker with a network of 10 Gbit/s carries; the least traffic worth a move is for such brokers."""
_MIB: Final = 1_048_576


@dataclass(frozen=True, slots=True)
class Strategy:
    name: str
    keys: Mapping[str, str]


OURS: Final = Strategy(
    "LeastDisturbance",
    {
        _SHEDDING_KEY: "LeastDisturbance",
        _PLACEMENT_KEY: "LeastDisturbance",
    },
)
STRATEGIES: Final = (
    OURS,
    Strategy("AvgShedder", {_SHEDDING_KEY: "AvgShedder", _PLACEMENT_KEY: "AvgShedder"}),
    Strategy("ThresholdShedder", {_SHEDDING_KEY: "ThresholdShedder", _PLACEMENT_KEY: "LeastResourceUsageWithWeight"}),
    Strategy("TransferShedder", {MANAGER_KEY: ManagerKind.EXTENSIBLE.class_name}),
)
"""The last one with the extensible load manager, the others with the modular one."""

_INTERVALS: Final = {
    **BALANCING_KEYS,
    "barycenterLeastDisturbancePatienceMinutes": f"{3 / FASTER:g}",
    "barycenterLeastDisturbanceMovesPerHour": f"{30 * FASTER}",
}


def plain_keys(strategy: Strategy, load: Load) -> dict[str, str]:
    """Return the keys of broker.conf without those of time. The least traffic worth a move is in proportion to what a
    broker can carry. No bundle is large enough to be split, so there are no splits."""
    part = load.most_bytes / _USUAL_BYTES
    return {
        "loadBalancerCPUResourceWeight": "0",
        "loadBalancerOverrideBrokerNicSpeedGbps": f"{load.most_bytes * 8 / 1e9:.6f}",
        "loadBalancerBundleUnloadMinThroughputThreshold": f"{10 * part:.6f}",
        "minUnloadMessage": f"{max(1.0, 1_000 * part):.0f}",
        "minUnloadMessageThroughput": f"{_MIB * part:.0f}",
        "loadBalancerAutoBundleSplitEnabled": "false",
        **strategy.keys,
    }


def configuration(strategy: Strategy, load: Load) -> dict[str, str]:
    """Return the keys of broker.conf of a run: intervals are shortened alike, and shedding is off until the load has
    begun."""
    return {**_INTERVALS, _IS_ON_KEY: "false", **plain_keys(strategy, load)}


@dataclass(frozen=True, slots=True)
class System:
    """A running cluster."""

    cluster: StandaloneCluster
    admin: AdminClient

    @property
    def broker_ids(self) -> list[str]:
        return [broker.broker_id for broker in self.cluster.brokers]

    @property
    def decisions(self) -> Path:
        return self.cluster.settings.directory.decisions

    async def call(self, method: str, path: str, **others: Any) -> Any:
        """Ask the first broker."""
        return await self.admin.call(method, self.cluster.brokers[0].web_url, path, **others)

    async def owned(self) -> dict[str, set[str]]:
        """Return the bundles of each broker, as brokers say; none of one that does not answer."""
        answers = await asyncio.gather(*(self._owned_by(broker) for broker in self.cluster.brokers))
        return dict(zip(self.broker_ids, answers, strict=True))

    async def _owned_by(self, broker: BrokerProcess) -> set[str]:
        path = f"/admin/v2/brokers/standalone/{broker.broker_id}/ownedNamespaces"
        with suppress(AdminRequestError):
            owned = await self.admin.call("GET", broker.web_url, path)
            return {name for name in owned if name.startswith(f"{NAMESPACE}/")}
        return set()

    async def place(self, load: Load) -> dict[str, str]:
        """Give every bundle with a topic to its first owner, and return these.

        Raises:
            TimeoutError: a bundle does not come to its first owner.
        """
        owners = load.first_owners(self.broker_ids)
        topics = {bundle: topic for topic, bundle in load.bundle_of.items()}
        async with asyncio.timeout(_PLACED_WITHIN_S):
            for bundle, broker in owners.items():
                look_up = f"/lookup/v2/topic/{topics[bundle].replace('://', '/')}"
                while await self._served_by(bundle, look_up) != broker:
                    await self._unload(bundle, broker)
        return owners

    async def _unload(self, bundle: str, broker: str) -> None:
        path = f"/admin/v2/namespaces/{bundle}/unload"
        try:
            await self.call("PUT", path, params={"destinationBroker": broker})
        except AdminRequestError as error:
            if error.status != _IS_THERE:
                raise

    async def _served_by(self, bundle: str, look_up: str) -> str:
        """Look the bundle up until a broker has it, and return the broker."""
        while True:
            await self.call("GET", look_up)
            for broker, bundles in (await self.owned()).items():
                if bundle in bundles:
                    return broker

    async def begin(self) -> None:
        """Let the strategy move bundles."""
        await self.call("POST", f"/admin/v2/brokers/configuration/{_IS_ON_KEY}/true")


@asynccontextmanager
async def running(strategy: Strategy, load: Load) -> AsyncIterator[System]:
    async with running_cluster(BROKERS, configuration(strategy, load)) as cluster:
        system = System(cluster, AdminClient(timeout_s=5.0))
        try:
            await system.call("PUT", f"/admin/v2/namespaces/{NAMESPACE}", body={"bundles": {"numBundles": BUNDLES}})
            yield system
        finally:
            await system.admin.close()


class Clients:
    """The process of the demo's clients, which follows the load and counts messages and gaps."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.began_s = time.time()

    @classmethod
    async def start(cls, load: Load, service_url: str) -> "Clients":
        """Return when all topics have their clients and the load has begun."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "pulsar_barycenter.demo.clients"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            limit=64 * _MIB,
            start_new_session=True,  # as brokers have: Linux shares the processors between sessions, by default
        )
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(msgspec.json.encode(load.plan(service_url)) + b"\n")
        if not await process.stdout.readline():
            raise RuntimeError(f"the clients ended with {await process.wait()} before they sent anything")
        return cls(process)

    async def result(self) -> ClientResult:
        """Wait for the end, and return what the clients counted."""
        assert self._process.stdout is not None
        decoder = msgspec.json.Decoder(ClientLine)
        while line := await self._process.stdout.readline():
            said = decoder.decode(line)
            if isinstance(said, ClientResult):
                await self._process.wait()
                return said
        raise RuntimeError(f"the clients ended with {await self._process.wait()} without a result")

    async def kill(self) -> None:
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()
