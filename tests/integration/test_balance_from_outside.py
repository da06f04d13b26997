"""`barycenter balance` beside a cluster of two brokers under a stock client's traffic, in each of its modes."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pulsar
import pytest

from pulsar_barycenter.balancer.approval import Answer, answer, waiting
from pulsar_barycenter.balancer.facts import FactsError, Identity
from pulsar_barycenter.balancer.options import LEASE_TOPIC, Caps, Mode, Wanted
from pulsar_barycenter.balancer.rounds import RoundRecord
from pulsar_barycenter.balancer.running import BalanceError, balance_until
from pulsar_barycenter.balancer.shedding_switch import SHEDDING_KEY
from pulsar_barycenter.balancer.state_folder import StateFolder
from pulsar_barycenter.cli.asking.client import asking_client, asking_conf, why_headers
from pulsar_barycenter.standalone.cluster import StandaloneCluster
from support.numbered_flow import NumberedFlow
from support.running_cluster import QUICK, Admin, eventually, running_cluster
from support.stock_client import connect

pytestmark = [pytest.mark.integration, pytest.mark.xdist_group("cluster")]

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
    """A cluster of two brokers, and its traffic."""

    def __init__(self, cluster: StandaloneCluster, admin: Admin, flow: NumberedFlow) -> None:
        self.url = cluster.brokers[0].web_url
        self.service_url = cluster.service_url
        self.ids = [broker.broker_id for broker in cluster.brokers]
        self.admin = admin
        self.flow = flow
        self.topics = list(flow.arrived)

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

    async def shedding(self) -> tuple[set[str], str | None]:
        """The value in force on every broker, and the override."""
        path = "/admin/v2/brokers/configuration"
        found = [await self.admin.expect(200, "GET", f"{path}/runtime", broker=place) for place in range(2)]
        values = await self.admin.expect(200, "GET", f"{path}/values")
        return {settings[SHEDDING_KEY] for settings in found}, values.get(SHEDDING_KEY)


@asynccontextmanager
async def balanced(folder: Path) -> AsyncIterator[Balanced]:
    async with running_cluster(folder, brokers=2, configuration=CONFIGURATION) as (cluster, admin):
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

    def __init__(self, url: str, state: Path, mode: Mode) -> None:
        self.records: list[RoundRecord] = []
        self.told: list[str] = []
        self.stop = asyncio.Event()
        wanted = Wanted(
            urls=(url,),
            state=state,
            mode=mode,
            strategy=STRATEGY,
            changes=CHANGES,
            interval_s=1.0,
            caps=Caps(per_minute=600, timeout_s=30),
            quiet_s=600.0,
            lease_s=6.0,
        )
        self.task = asyncio.create_task(
            balance_until(self.stop, asking_client, asking_conf(), wanted, self._tell, why_headers)
        )

    def _tell(self, found: RoundRecord | str) -> None:
        if isinstance(found, RoundRecord):
            self.records.append(found)
        else:
            self.told.append(found)

    async def until(self, holds: Callable[[], bool], what: str) -> None:
        async def is_so() -> bool:
            if self.task.done():
                await self.task
            return holds()

        try:
            await eventually(is_so, within_s=60, what=what)
        except AssertionError as error:
            error.add_note("\n".join(self.told))
            raise

    async def until_state(self, state: str) -> RoundRecord:
        await self.until(lambda: bool(self.records) and self.records[-1].state == state, f"it is {state}")
        return self.records[-1]

    async def end(self) -> None:
        self.stop.set()
        await self.task


@contextmanager
def fenced(service_url: str) -> Iterator[None]:
    """Take the lease from its holder, as another process that the cluster admits."""
    client = connect(service_url, logger=pulsar.FileLogger(pulsar.LoggerLevel.Error, "/dev/null"))
    try:
        client.create_producer(LEASE_TOPIC, access_mode=pulsar.ProducerAccessMode.ExclusiveWithFencing)
        yield
    finally:
        client.close()


async def killed_while_it_moves(found: Balanced, state: Path) -> None:
    """Start `barycenter balance --mode act` and kill it once its journal has a move that began."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "pulsar_barycenter", "balance", "--url", found.url, "--state", str(state)),
        *("--mode", "act", "--strategy", STRATEGY, *(word for change in CHANGES for word in ("--set", change))),
        *("--interval", "1", "--per-minute", "600"),
        stdout=asyncio.subprocess.DEVNULL,
        env=os.environ,
    )
    journal = state / "moves.journal"

    async def has_begun() -> bool:
        assert process.returncode is None
        return journal.exists() and '"begun"' in journal.read_text()

    await eventually(has_begun, within_s=60, what="a move begins")
    process.send_signal(signal.SIGKILL)
    await process.wait()


def states(state: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (state / "moves.journal").read_text().splitlines()]


def is_at_rest(acting: Running, state: Path) -> bool:
    """Return whether a round after the last move decided none: a move of a person would meet one of the balancer."""
    last, newest = states(state)[-1], acting.records[-1]
    return last["state"] == "served" and newest.at > last["at"] and not newest.decided


async def test_each_mode_does_what_it_may_and_gives_back_what_it_took(tmp_path: Path) -> None:
    """Observing, then killed while it acts and started again, a person's move, a person's switch, and an approval."""
    async with balanced(tmp_path / "data") as found:
        first, before = await found.on_one_broker(), await found.shedding()
        assert before == ({"true"}, None)
        owners = await found.owners()

        observer = Running(found.url, tmp_path / "seen", Mode.OBSERVE)
        await observer.until(lambda: any(record.decided for record in observer.records[:-2]), "two rounds more")
        await observer.end()
        assert (await found.owners(), await found.shedding()) == (owners, before)
        decided = [move for record in observer.records for move in record.decided]
        assert {move.source for move in decided} == {first}
        assert len({move.bundle for move in decided}) == len(decided), "a bundle stays where it would be"
        score = observer.records[-1].score
        assert (score.cluster.moves, score.ours.moves) == (0, len(decided))

        state = tmp_path / "state"
        await killed_while_it_moves(found, state)
        assert await found.shedding() == ({"false"}, "false")
        acting = Running(found.url, state, Mode.ACT)
        await acting.until_state("acting")
        await acting.until(
            lambda: is_at_rest(acting, state), "what was under way is served, and nothing more is decided"
        )
        assert await found.is_spread()
        decisions = await found.admin.expect(200, "GET", "/barycenter/v1/decision-log?kind=unload")
        assert f"[{STRATEGY}]" in json.dumps(decisions), "brokers know why"
        await found.more_arrive()
        topic = next(topic for topic, owner in (await found.owners()).items() if owner == first)
        await found.move(topic, found.ids[1])
        paused = await acting.until_state("paused")
        assert f"from {first} to {found.ids[1]}" in paused.held_up
        standby = Running(found.url, tmp_path / "standby", Mode.ACT)
        await standby.until_state("standby")
        await acting.end()
        assert await found.shedding() == before
        await standby.until_state("acting")
        assert await found.shedding() == ({"false"}, "false")

        with fenced(found.service_url):
            with pytest.raises(BalanceError, match="another process holds the lease"):
                await standby.task
            assert await found.shedding() == ({"false"}, "false"), "who lost the lease changes nothing any more"

        again = Running(found.url, state, Mode.ACT)
        await again.until_state("acting")
        assert any("gets back what it had, true" in line for line in again.told), "the lease has what was there"
        await found.admin.expect(200, "POST", f"/admin/v2/brokers/configuration/{SHEDDING_KEY}/true")
        await again.until_state("handed back")
        await again.end()
        assert await found.shedding() == ({"true"}, "true"), "what a person switched on stays on"

        await found.on_one_broker()
        advising = Running(found.url, tmp_path / "advised", Mode.ADVISE)
        await advising.until_state("advising")
        await advising.until(lambda: (tmp_path / "advised" / "proposal.json").exists(), "a round is proposed")
        assert not await found.is_spread()
        proposal = waiting(tmp_path / "advised", 0)
        answer(tmp_path / "advised", Answer(proposal=proposal.name, is_approved=True, by="ann", at=1))
        await advising.until(lambda: any("is served by" in line for line in advising.told), "it is carried out")
        await advising.end()
        assert await found.shedding() == ({"true"}, "true")
        assert {entry["by"] for entry in states(tmp_path / "advised")} == {"barycenter balance, approved by ann"}

        StateFolder(tmp_path / "other").check(Identity(cluster="standalone", store="zk:elsewhere"))
        with pytest.raises(FactsError, match="zk:elsewhere"):
            await Running(found.url, tmp_path / "other", Mode.ACT).task
