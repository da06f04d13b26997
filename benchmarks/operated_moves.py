"""How long clients wait while an operator moves bundles by a plan and drains a broker, by the command line.

Three brokers serve as many bundles as are moved, with a topic in each, to which a producer sends every 10 ms and from
which a consumer takes. `barycenter execute` moves every bundle to another broker, `barycenter drain` then empties one.
The gap of a move is the longest time in which messages of its topic were under way and no receipt came, between the
begin of the move in the journal and a while after the new broker serves the bundle.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import aiohttp
import pulsar

from benchmarks.cluster import running_cluster
from benchmarks.machine import percentile, print_table
from benchmarks.unload_gap import Pulse
from pulsar_barycenter.load.managers import ManagerKind
from pulsar_barycenter.standalone.cluster import StandaloneCluster

_NAMESPACE: Final = "public/operated"
_EVERY_S: Final = 0.01
_SETTLES_S: Final = 0.4
_CALM_S: Final = 2.0
_KINDS: Final = {"modular": ManagerKind.MODULAR, "extensible": ManagerKind.EXTENSIBLE}
_SHEDS_NOT: Final = {"loadBalancerSheddingEnabled": "false"}


@dataclass(frozen=True, slots=True)
class Move:
    """What a journal tells of one: `begun_s` and `served_s` by the clock of the pulses."""

    bundle: str
    begun_s: float
    served_s: float


async def topics_of(session: aiohttp.ClientSession, cluster: StandaloneCluster, bundles: int) -> dict[str, str]:
    """Make the namespace and return a topic of each bundle, each bundle having an owner."""
    url = cluster.brokers[0].web_url
    async with session.put(
        f"{url}/admin/v2/namespaces/{_NAMESPACE}", json={"bundles": {"numBundles": bundles}}
    ) as told:
        assert told.status == 204, await told.text()
    found: dict[str, str] = {}
    number = 0
    while len(found) < bundles:
        path = f"{url}/lookup/v2/topic/persistent/{_NAMESPACE}/topic-{number}"
        async with session.get(f"{path}/bundle") as told:
            bundle = f"{_NAMESPACE}/{(await told.text()).strip(chr(34))}"
        if bundle not in found:
            async with session.get(path) as told:
                assert told.status == 200, await told.text()
            found[bundle] = f"persistent://{_NAMESPACE}/topic-{number}"
        number += 1
    return found


async def owners(session: aiohttp.ClientSession, cluster: StandaloneCluster) -> dict[str, str]:
    """Return the broker of each bundle of the namespace, by the brokers' own word."""
    found: dict[str, str] = {}
    for broker in cluster.brokers:
        path = f"/admin/v2/brokers/standalone/{broker.broker_id}/ownedNamespaces"
        async with session.get(f"{broker.web_url}{path}") as told:
            owned = await told.json(content_type=None)
        found |= {bundle: broker.broker_id for bundle in owned if bundle.startswith(f"{_NAMESPACE}/")}
    return found


def barycenter(*words: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pulsar_barycenter", *words],
        env={**os.environ, "COLUMNS": "200"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def moves_of(journal: Path, clock_s: float) -> list[Move]:
    """Return the moves that a journal tells of; `clock_s` is by how much the wall clock is ahead of the pulses'."""
    begun: dict[str, float] = {}
    found = []
    for line in journal.read_text().splitlines():
        entry = json.loads(line)
        at_s = entry["at"] / 1000 - clock_s
        if entry["state"] == "begun":
            begun[entry["bundle"]] = at_s
        elif entry["state"] == "served" and entry["bundle"] in begun:
            found.append(Move(entry["bundle"], begun.pop(entry["bundle"]), at_s))
    return found


async def run(
    configuration: dict[str, str], bundles: int, pace: tuple[str, ...]
) -> tuple[dict[str, list[Move]], dict[str, list[float]], list[str]]:
    """Return of the plan and of the drain the moves, their gaps in seconds, and what became of messages."""
    with tempfile.TemporaryDirectory(prefix="barycenter-bench-") as folder:
        async with running_cluster(3, _SHEDS_NOT | configuration) as cluster, aiohttp.ClientSession() as session:
            url = cluster.brokers[0].web_url
            topics = await topics_of(session, cluster, bundles)
            client = pulsar.Client(cluster.service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
            pulses: dict[str, Any] = {}
            for bundle, topic in topics.items():
                pulses[bundle] = await asyncio.to_thread(Pulse, client, topic, _EVERY_S)
            await asyncio.sleep(_CALM_S)
            clock_s = time.time() - time.perf_counter()
            ids = [broker.broker_id for broker in cluster.brokers]
            plan, drained = Path(folder) / "plan.jsonl", Path(folder) / "drain.journal"
            before = await owners(session, cluster)
            plan.write_text(
                "".join(map(_line, before, before.values(), (_next(ids, each) for each in before.values())))
            )
            await asyncio.to_thread(barycenter, "execute", str(plan), "--url", url, "--yes", *pace)
            await asyncio.sleep(_CALM_S)
            words = ("drain", ids[0], "--url", url, "--yes", *pace, "--journal", str(drained))
            await asyncio.to_thread(barycenter, *words)
            await asyncio.sleep(_CALM_S)
            assert ids[0] not in (await owners(session, cluster)).values(), "the broker is not empty"
            for pulse in pulses.values():
                await asyncio.to_thread(pulse.close)
            await asyncio.to_thread(client.close)
            moved = {
                "move": moves_of(plan.with_name("plan.jsonl.journal"), clock_s),
                "drain": moves_of(drained, clock_s),
            }
    gaps = {
        event: [pulses[move.bundle].longest_gap_s(move.begun_s, move.served_s + _SETTLES_S) for move in moves]
        for event, moves in moved.items()
    }
    return moved, gaps, [pulse.verdict() for pulse in pulses.values()]


def _next(ids: list[str], broker: str) -> str:
    return ids[(ids.index(broker) + 1) % len(ids)]


def _line(bundle: str, source: str, destination: str) -> str:
    return json.dumps({"kind": "unload", "bundle": bundle, "source": source, "destination": destination}) + "\n"


async def measure(bundles: int, per_minute: float, at_once: int, kinds: list[str]) -> None:
    rows: list[list[object]] = []
    for kind in kinds:
        configuration = {"loadManagerClassName": _KINDS[kind].class_name}
        pace = ("--per-minute", str(per_minute), "--at-once", str(at_once))
        moved, gaps, verdicts = await run(configuration, bundles, pace)
        for event, found in gaps.items():
            took = [move.served_s - move.begun_s for move in moved[event]]
            figures = [1000 * percentile(found, p) for p in (50, 99, 100)]
            rows.append([kind, event, len(found), *figures, 1000 * percentile(took, 50)])
        print(f"{kind}: of {len(verdicts)} topics nothing was lost, all arrived in order; of the first {verdicts[0]}")
    header = ["load manager", "by", "bundles", "gap p50 ms", "gap p99 ms", "gap max ms", "until served p50 ms"]
    print_table("Client-visible gap of what an operator moves", header, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bundles", type=int, default=30)
    parser.add_argument("--per-minute", type=float, default=60.0)
    parser.add_argument("--at-once", type=int, default=1)
    parser.add_argument("--kinds", nargs="*", choices=list(_KINDS), default=list(_KINDS))
    arguments = parser.parse_args()
    asyncio.run(measure(arguments.bundles, arguments.per_minute, arguments.at_once, arguments.kinds))


if __name__ == "__main__":
    main()
