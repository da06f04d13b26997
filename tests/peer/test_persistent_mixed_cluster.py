"""Two brokers of Apache Pulsar and two of Barycenter as one cluster with persistent topics on the same three bookies.

Topics move at random by unload, and because their owner is killed or paused, while a bookie is down at times and
numbered messages flow. At the end, Java alone serves and reads everything.

.venv/bin/python -m pytest tests/peer/test_persistent_mixed_cluster.py --peer-required --mixed-minutes 60 \
    --peer-version both -s --timeout 14400      (the long form)
"""

import asyncio
import random
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from pulsar_barycenter.config.pulsar_version import VERSIONS
from support.maven import PeerUnavailableError
from support.mixed_cluster import BOOKIES, NAMESPACE, MixedCluster, mixed_cluster
from support.mixed_flow import KINDS, SUBSCRIPTION, Content, Flow
from support.numbered_messages import receive_all, stock_client

pytestmark = [pytest.mark.peer, pytest.mark.integration, pytest.mark.xdist_group("apache pulsar")]

STEPS = ("unload", "kill", "pause", "bookie")
WEIGHTS = (4, 2, 2, 2)


class Moves:
    """Moves the topics of flows at random, and counts what it did."""

    def __init__(self, mixed: MixedCluster, flows: list[Flow], chance: random.Random) -> None:
        self.mixed = mixed
        self.flows = flows
        self.chance = chance
        self.counts: Counter[str] = Counter()
        self.served: set[int] = set()

    async def run(self, minutes: float) -> None:
        """Take each kind of step once, and then some at random, until the time is over and each broker served."""
        began_s = time.monotonic()
        first = self.chance.sample(STEPS, len(STEPS))
        while first or time.monotonic() < began_s + 60 * minutes or len(self.served) < len(self.mixed.brokers):
            step = first.pop() if first else self.chance.choices(STEPS, WEIGHTS)[0]
            took_s = time.monotonic()
            await self._take(step)
            for flow in self.flows:
                await flow.goes_on()
                assert not flow.wrongly_again, (step, flow.kind, flow.wrongly_again[:20])
                self.served.add(await self.mixed.owner(flow.topic))
            now_s = time.monotonic()
            print(f"{now_s - began_s:6.0f} s: {step} took {now_s - took_s:.0f} s; {self.report()}", flush=True)

    def report(self) -> str:
        sent = sum(flow.producer.sent for flow in self.flows)
        again = sum(flow.came_again for flow in self.flows)
        return f"{sent} messages, {again} came again; " + ", ".join(
            f"{name} {count}" for name, count in sorted(self.counts.items())
        )

    async def _take(self, step: str) -> None:
        match step:
            case "unload":
                for flow in self.flows:
                    await self._unload(flow)
            case "kill":
                await self._kill(self.chance.choice(self.flows))
            case "pause":
                number = await self.mixed.pause(self.chance.choice(self.flows).topic)
                self.counts[f"pauses of {self.mixed.kind_of(number)}"] += 1
            case _:
                await self._bookie()

    async def _unload(self, flow: Flow) -> None:
        """Unload a topic, half of the times while nothing is sent: both owners have to report the same then."""
        before = await self.mixed.owner(flow.topic)
        target = self.chance.choice(self.mixed.others(before))
        move = f"{self.mixed.kind_of(before)} to {self.mixed.kind_of(target)}"
        self.counts[f"unloads {move}"] += 1
        if self.chance.random() < 0.5:
            await self.mixed.unload(flow.topic, target)
            return
        async with flow.silence():
            expected = await self.mixed.settled(flow)
            await self.mixed.unload(flow.topic, target)
            now = await self.mixed.settled(flow)
            is_kept = now.includes(expected) if flow.kind == "key-shared" else now == expected
            assert is_kept, (flow.topic, move, _differences(expected, now))
        self.counts["unloads compared"] += 1
        flow.acknowledge_held()

    async def _kill(self, flow: Flow) -> None:
        """Kill the owner of a topic, half of the times while nothing is sent to this topic: the next owner must have
        the same entries then.
        """
        number = await self.mixed.owner(flow.topic)
        self.counts[f"kills of {self.mixed.kind_of(number)}"] += 1
        if self.chance.random() < 0.5:
            await self.mixed.kill(number)
        else:
            async with flow.silence():
                expected = await self.mixed.settled(flow)
                await self.mixed.kill(number)
                now = await self.mixed.settled(flow)
                assert now.entries == expected.entries, (flow.topic, expected.entries, now.entries)
            self.counts["kills compared"] += 1
        await self.mixed.restart(number)

    async def _bookie(self) -> None:
        if self.mixed.missing_bookies:
            await self.mixed.start_bookies()
        else:
            await self.mixed.kill_bookie(self.chance.randrange(BOOKIES))
            self.counts["kills of a bookie"] += 1


def _differences(expected: Content, now: Content) -> dict[str, Any]:
    entries = set(expected.entries.items()) ^ set(now.entries.items())
    names = expected.acknowledged.keys() | now.acknowledged.keys()
    acknowledged = {name: (expected.acknowledged.get(name), now.acknowledged.get(name)) for name in names}
    return {
        "entries": entries,
        "acknowledged": {name: both for name, both in acknowledged.items() if both[0] != both[1]},
    }


@pytest.mark.full_form
@pytest.mark.parametrize("line", VERSIONS)
async def test_topics_move_among_java_and_python_brokers(
    line: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    wanted = request.config.getoption("--peer-version")
    if wanted not in ("newest", "both", line):
        pytest.skip(f"it is asked of {wanted}")
    minutes = float(request.config.getoption("--mixed-minutes"))
    chance = random.Random(int(request.config.getoption("--peer-seed")))
    try:
        async with mixed_cluster(tmp_path, line) as mixed:
            await _play(mixed, minutes, chance)
    except PeerUnavailableError as error:
        pytest.fail(str(error))


async def _play(mixed: MixedCluster, minutes: float, chance: random.Random) -> None:
    body = {"bundles": {"numBundles": 8}}
    assert await mixed.call("PUT", f"/admin/v2/namespaces/{NAMESPACE}", json=body) == (204, "")
    client = await asyncio.to_thread(stock_client, mixed.service_url)
    flows = [await asyncio.to_thread(Flow, client, NAMESPACE, kind, mixed.interruptions) for kind in KINDS]
    moves = Moves(mixed, flows, chance)
    sending = [asyncio.create_task(asyncio.to_thread(flow.run)) for flow in flows]
    try:
        await moves.run(minutes)
    except BaseException:
        await asyncio.to_thread(client.close)  # or a producer that waits for room would wait for ever
        raise
    finally:
        for flow in flows:
            flow.end()
        await asyncio.gather(*sending, return_exceptions=True)
    await mixed.start_bookies()
    for flow in flows:
        flow.hold_no_more()
        await mixed.settled(flow)
        flow.check()
    ledgers, unreferenced = await mixed.check_ledgers(flows)
    print(f"{moves.report()}; {ledgers} ledgers, unreferenced: {unreferenced}", flush=True)
    await asyncio.to_thread(client.close)
    await mixed.cluster.stop()
    await asyncio.to_thread(_java_alone, mixed, flows)
    await mixed.check_ledgers(flows)
    assert len(unreferenced) <= len(mixed.interruptions.times_s), unreferenced


def _java_alone(mixed: MixedCluster, flows: list[Flow]) -> None:
    """Check that Java reads every message in order, and knows that all were acknowledged."""
    client = stock_client(mixed.java.service_url)
    try:
        for flow in flows:
            sent = flow.producer.sent
            assert receive_all(client, flow.topic, sent, within_s=120) == list(range(sent))
            stats = mixed.java.expect(200, "GET", f"{flow.path}/stats")
            assert stats["subscriptions"][SUBSCRIPTION]["msgBacklog"] == 0
    finally:
        client.close()
