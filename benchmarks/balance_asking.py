"""`python -m benchmarks balance_asking`: the CPU time of `barycenter balance`, in queried brokers and in its process.

The cost for a broker is measured with a real broker: its load report is requested again and again over one connection,
and the CPU time of its process is counted, less the CPU time that it takes without requests. The cost for `balance` is
measured with a process that answers as 1,000 brokers on 1,000 ports, each with a report of some bundles.
"""

import argparse
import asyncio
import multiprocessing
import os
import resource
import tempfile
import time
from itertools import pairwise
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from typing import Any, Final

import psutil
from aiohttp import web

from benchmarks.cluster import running_cluster
from benchmarks.machine import print_table
from pulsar_barycenter.balancer.options import Mode, Wanted
from pulsar_barycenter.balancer.rounds import RoundRecord
from pulsar_barycenter.balancer.running import balance_until
from pulsar_barycenter.cli.asking.client import asking_client, asking_conf, why_headers
from pulsar_barycenter.naming.counted import count_of
from pulsar_barycenter.operations.policies_read import GROUPS_MS, RULES_MS
from pulsar_barycenter.standalone.cluster import free_ports

_INTERVAL_S: Final = 60.0
"""The rhythm of `balance` by default."""
_SETTLE_S: Final = 10.0
_REPORT: Final = "/admin/v2/broker-stats/load-report"
_GROUP: Final = "/admin/v2/namespaces/public/asked/antiAffinity"
_SETTINGS: Final = "/admin/v2/brokers/configuration/runtime"


async def own_bundles(url: str, bundles: int) -> None:
    """Make a namespace whose bundles the broker at this web address serves."""
    client = asking_client()
    body = {"bundles": {"numBundles": bundles}}
    await client.call("PUT", url, "/admin/v2/namespaces/public/asked", body=body)
    for number in range(4 * bundles):
        await client.call("GET", url, f"/lookup/v2/topic/persistent/public/asked/topic-{number}")
    await client.close()


async def cost_of_a_request(bundles: int, requests: int) -> dict[str, float]:
    """Return the CPU seconds of a broker for each request, by path."""
    async with running_cluster(1) as cluster:
        (process,) = psutil.Process(os.getpid()).children()
        url = cluster.brokers[0].web_url
        await own_bundles(url, bundles)
        client = asking_client()
        await asyncio.sleep(_SETTLE_S)
        began_s, before = time.monotonic(), _cpu_s(process)
        await asyncio.sleep(_SETTLE_S)
        idle = (_cpu_s(process) - before) / (time.monotonic() - began_s)
        found = {}
        for path in (_REPORT, _SETTINGS, _GROUP):
            began_s, before = time.monotonic(), _cpu_s(process)
            for _ in range(requests):
                await client.call("GET", url, path, or_text=True)
            found[path] = (_cpu_s(process) - before - idle * (time.monotonic() - began_s)) / requests
        await client.close()
        return found


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


class ManyBrokers:
    """Answers as a broker with `bundles` bundles on each of the ports."""

    def __init__(self, ports: list[int], bundles: int, asked: "Synchronized[int]") -> None:
        """Count in `asked` the requests but those for load reports and for groups of namespaces."""
        self._ports = ports
        self._asked = asked
        self._places = {port: place for place, port in enumerate(ports)}
        self._bundles = bundles
        self._answers: dict[str, Any] = {
            "brokers": [f"127.0.0.1:{port}" for port in ports],
            "brokers/configuration/runtime": {"clusterName": "many", "loadBalancerSheddingEnabled": "true"},
            "brokers/internal-configuration": {"metadataStoreUrl": "zk:many"},
            "brokers/version": "4.2.4",
        }

    async def serve(self) -> None:
        """Listen on all ports until the process ends."""
        app = web.Application()
        app.router.add_get("/{path:.*}", self._answer)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        for port in self._ports:
            await web.TCPSite(runner, "127.0.0.1", port).start()
        await asyncio.Event().wait()

    async def _answer(self, request: web.Request) -> web.Response:
        path = request.path.removeprefix("/admin/v2/")
        if path == "broker-stats/load-report":
            return web.json_response(self._report(self._places[request.url.port or 0]))
        if not path.endswith("/antiAffinity"):
            self._asked.value += 1
        if path in self._answers:
            return web.json_response(self._answers[path])
        return web.json_response({}, status=404)

    def _report(self, place: int) -> dict[str, Any]:
        step = (1 << 32) // self._bundles
        edges = [min(number * step, 0xFFFFFFFF) for number in range(self._bundles)] + [0xFFFFFFFF]
        names = [f"t/n{place}/0x{low:08x}_0x{high:08x}" for low, high in pairwise(edges)]
        stats = {"msgRateIn": 50.0, "msgThroughputIn": 50_000.0 * (1 + place % 5), "topics": 5, "producerCount": 5}
        return {
            "cpu": {"usage": 20.0 + place % 50, "limit": 100.0},
            "bundles": names,
            "lastStats": dict.fromkeys(names, stats),
            "lastUpdate": round(time.time() * 1000),
            "startTimestamp": 1,
        }


def serve_brokers(ports: list[int], bundles: int, asked: "Synchronized[int]") -> None:
    """Answer as a broker on each port until the process ends."""
    _allow_connections()
    asyncio.run(ManyBrokers(ports, bundles, asked).serve())


def _allow_connections() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


async def cost_of_balance(
    url: str, state: Path, rounds: int, asked: "Synchronized[int]"
) -> tuple[float, float, float, float]:
    """Return the CPU seconds of `balance` for a round, how long a round takes (s), the memory of its process (bytes),
    and how many requests of a round are neither for reports nor for groups of namespaces."""
    _allow_connections()
    times: list[tuple[float, float, int]] = []

    def tell(found: RoundRecord | str) -> None:
        if isinstance(found, RoundRecord):
            times.append((time.monotonic(), time.process_time(), asked.value))

    wanted = Wanted(urls=(url,), state=state, mode=Mode.OBSERVE, interval_s=1.0, rounds=rounds)
    await balance_until(asyncio.Event(), asking_client, asking_conf(), wanted, tell, why_headers)
    taken = len(times) - 1  # the first one starts everything
    cpu_s = (times[-1][1] - times[0][1]) / taken
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0
    return cpu_s, (times[-1][0] - times[0][0]) / taken, memory, (times[-1][2] - times[0][2]) / taken


async def measure(brokers: int, bundles: int, requests: int, rounds: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        costs = await cost_of_a_request(bundles, requests)
        ports = free_ports(brokers)
        forked = multiprocessing.get_context("fork")
        asked: Synchronized[int] = forked.Value("q", 0)
        process = forked.Process(target=serve_brokers, args=(ports, bundles, asked))
        process.start()
        try:
            await asyncio.sleep(_SETTLE_S)
            url = f"http://127.0.0.1:{ports[0]}"
            cpu_s, took_s, memory, others = await cost_of_balance(url, Path(folder) / "state", rounds, asked)
        finally:
            process.kill()
            process.join()
    report, settings, group = costs[_REPORT], costs[_SETTINGS], costs[_GROUP]
    each_s = (others + 2 * _INTERVAL_S / (RULES_MS / 1000)) * settings / _INTERVAL_S  # as dear as the settings
    groups_s = brokers * group / (GROUPS_MS / 1000)
    rows = [
        ["load report, ms of the broker's CPU", f"{1000 * report:.2f}"],
        [f"share of a core of an asked broker, one report in {_INTERVAL_S:g} s", f"{100 * report / _INTERVAL_S:.4f} %"],
        ["settings, ms of the broker's CPU (one broker in each round)", f"{1000 * settings:.2f}"],
        ["group of a namespace, ms of the broker's CPU", f"{1000 * group:.2f}"],
        ["other requests of a round, to one broker", f"{others:.0f}"],
        [
            f"share of a core of the broker that answers them, {brokers:,} namespaces",
            f"{100 * (each_s + groups_s):.4f} %",
        ],
        [f"CPU of balance for a round of {brokers:,} brokers, s", f"{cpu_s:.2f}"],
        [f"share of a core of balance, one round in {_INTERVAL_S:g} s", f"{100 * cpu_s / _INTERVAL_S:.2f} %"],
        ["time from round to round without a pause, s", f"{took_s:.2f}"],
        ["memory of balance at most, MiB", f"{memory / (1 << 20):.0f}"],
    ]
    print_table(f"Asking {brokers:,} brokers with {count_of(bundles, 'bundle')} each", ["what", "measured"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--brokers", type=int, default=1_000)
    parser.add_argument("--bundles", type=int, default=16, help="of each broker")
    parser.add_argument("--requests", type=int, default=500, help="to the real broker, of each kind")
    parser.add_argument("--rounds", type=int, default=4, help="of balance; the first one does not count")
    options = parser.parse_args()
    asyncio.run(measure(options.brokers, options.bundles, options.requests, options.rounds))


if __name__ == "__main__":
    main()
