"""A cluster under a stock client's traffic, and balancers beside it in the process of a test."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

from pulsar_barycenter.admin.client import NewClient
from pulsar_barycenter.balancer.options import Caps, Mode, Wanted
from pulsar_barycenter.balancer.rounds import RoundRecord
from pulsar_barycenter.balancer.running import balance_until
from pulsar_barycenter.cli.asking.client import asking_client, asking_conf, why_headers
from pulsar_barycenter.operations.own_balancing import SHEDDING
from pulsar_barycenter.standalone.cluster import StandaloneCluster
from support.numbered_flow import NumberedFlow
from support.running_cluster import QUICK, Admin, eventually, running_cluster

NAMESPACE, BUNDLES, TOPICS = "public/busy", 4, 6
CONFIGURATION = {
    **QUICK,
    "statsUpdateFrequencyInSecs": "1",
    "loadBalancerSheddingEnabled": "true",
    "loadBalancerSheddingIntervalMinutes": "60",  # it does not run within the test
}
CHANGES = ("minUnloadMessage=1", "minUnloadMessageThroughput=1")
STRATEGY = "UniformLoadShedder"
"""It decides on the first report; LeastDisturbance waits until a change of load has lasted."""


class Balanced:
    """A cluster, and its traffic."""

    def __init__(self, cluster: StandaloneCluster, admin: Admin, flow: NumberedFlow) -> None:
        self.cluster = cluster
        self.url = cluster.brokers[0].web_url
        self.service_url = cluster.service_url
        self.ids = [broker.broker_id for broker in cluster.brokers]
        self.admin = admin
        self.flow = flow
        self.topics = list(flow.arrived)
        self.killed: list[int] = []

    async def kill(self, broker_id: str) -> None:
        """End a broker with SIGKILL."""
        place = self.ids.index(broker_id)
        self.killed.append(place)
        await self.cluster.kill_broker(self.cluster.brokers[place])

    async def owners(self) -> dict[str, str]:
        return {topic: (await self.admin.owner(topic)).broker_id for topic in self.topics}

    async def move(self, topic: str, destination: str) -> None:
        path = f"/admin/v2/namespaces/{NAMESPACE}/{await self.admin.bundle_range(topic)}/unload"

        async def is_there() -> bool:
            if (await self.admin.owner(topic)).broker_id != destination:
                await self.admin.call("PUT", f"{path}?destinationBroker={destination}")
            return (await self.admin.owner(topic)).broker_id == destination

        await eventually(is_there, within_s=30, what=f"{topic} is on {destination}")

    async def on_one_broker(self) -> str:
        first = self.ids[0]
        for topic in self.topics:
            await self.move(topic, first)
        return first

    async def is_spread(self) -> bool:
        return len(set((await self.owners()).values())) > 1

    async def more_arrive(self) -> None:
        await asyncio.to_thread(self.flow.wait_for_more, 20)

    async def bundles(self) -> list[str]:
        boundaries = (await self.admin.expect(200, "GET", f"/admin/v2/namespaces/{NAMESPACE}/bundles"))["boundaries"]
        return [f"{NAMESPACE}/{lower}_{upper}" for lower, upper in pairwise(boundaries)]

    async def shedding(self, key: str = SHEDDING) -> tuple[set[str], str | None]:
        """The value of the key in force on every broker that runs, and the override."""
        path, places = "/admin/v2/brokers/configuration", [broker.index for broker in self.cluster.brokers]
        places = [place for place in places if place not in self.killed]
        found = [await self.admin.expect(200, "GET", f"{path}/runtime", broker=place) for place in places]
        values = await self.admin.expect(200, "GET", f"{path}/values", broker=places[0])
        return {settings[key] for settings in found}, values.get(key)


@asynccontextmanager
async def balanced(folder: Path, *, brokers: int = 2) -> AsyncIterator[Balanced]:
    async with running_cluster(folder, brokers=brokers, configuration=CONFIGURATION) as (cluster, admin):
        await admin.create_namespace(NAMESPACE, BUNDLES)
        topics = [f"persistent://{NAMESPACE}/orders-{number}" for number in range(TOPICS)]
        flow = await asyncio.to_thread(NumberedFlow, cluster.service_url, topics)
        try:
            found = Balanced(cluster, admin, flow)
            await found.more_arrive()
            yield found
            await found.more_arrive()
        finally:
            lost = await asyncio.to_thread(flow.close)
    assert lost == {}


class Running:
    """A balancer in this process: its records, its sentences, and its end."""

    def __init__(
        self,
        url: str,
        state: Path,
        mode: Mode,
        new_client: NewClient = asking_client,
        changes: tuple[str, ...] = (),
        strategy: str = STRATEGY,
        **others: Any,
    ) -> None:
        self.records: list[RoundRecord] = []
        self.told: list[str] = []
        self.stop = asyncio.Event()
        wanted = Wanted(
            urls=tuple(url.split(",")),
            state=state,
            mode=mode,
            strategy=strategy,
            changes=(*CHANGES, *changes),
            interval_s=1.0,
            caps=Caps(per_minute=600, timeout_s=30),
            quiet_s=600.0,
            lease_s=6.0,
            **others,
        )
        self.task = asyncio.create_task(
            balance_until(self.stop, new_client, asking_conf(), wanted, self._tell, why_headers)
        )

    def _tell(self, found: RoundRecord | str) -> None:
        if isinstance(found, RoundRecord):
            self.records.append(found)
        else:
            self.told.append(found)

    async def until(self, holds: Callable[[], bool], what: str, *, within_s: float = 60) -> None:
        async def is_so() -> bool:
            if self.task.done():
                await self.task
            return holds()

        try:
            await eventually(is_so, within_s=within_s, what=what)
        except AssertionError as error:
            error.add_note("\n".join(self.told))
            raise

    async def until_state(self, state: str) -> RoundRecord:
        await self.until(lambda: bool(self.records) and self.records[-1].state == state, f"it is {state}")
        return self.records[-1]

    async def end(self) -> None:
        self.stop.set()
        await self.task
