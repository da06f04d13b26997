"""`python -m benchmarks balancing_pulsar`: Pulsar's own balancer and `balance --mode act`, in turns on the same load.

Three brokers of Apache Pulsar with its defaults (under the modular load manager ThresholdShedder, with `--pulsar 5.x`
AvgShedder; the least traffic to shed fits small brokers), 40 topics in 24 bundles, at the rates of traces of tweets
(`--data`, CSV files with timestamp,value), half an hour of them in `--step` seconds. Each run has a new cluster. All
bundles begin on the first two brokers, as after a restart of the third one. In a run of Pulsar's own balancer `balance
--mode observe` sees the moves; in the other one `--mode act` makes them. Each broker is in a control group with a CPU
quota, as in a container; that needs root, Linux with version 1 of control groups, Maven and a JDK.

Two processes with `--only`, started together, measure both at once: it takes half the time, and other work on the
machine disturbs both alike.

*Above the mean* is the CPU usage of the fullest broker above the mean of all, in points of a broker's quota, by the
control groups, of each 30 s; balanced is up to 10. *Gap* is the longest time from a send to its receipt.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from benchmarks.balancing_pulsar.shares import NoSharesError, Shares, shares
from benchmarks.balancing_pulsar.traffic import Traffic, rates_of
from benchmarks.machine import machine, percentile, print_table
from benchmarks.pulsar.systems import pulsar_version
from pulsar_barycenter.config.pulsar_version import VERSIONS
from pulsar_barycenter.operations.own_balancing import SHEDDING
from support.apache_pulsar import MODULAR, QUICK, ApachePulsar, apache_pulsar, soon
from support.apache_pulsar_5 import VERSION as VERSION_5
from support.apache_pulsar_5 import resolve_class_path_5_0_1
from support.maven import PeerUnavailableError, java_of
from support.pulsar_peer import resolve_class_path
from support.running_cluster import lookup_path

BROKERS, TOPICS, BUNDLES = 3, 40, 24
OWN, OURS = "Pulsar's own", "balance --mode act"
_MODES: Final = {OWN: "observe", OURS: "act"}
_NAMESPACE: Final = "public/tweets"
_CONFIGURATION: Final = {
    "loadManagerClassName": MODULAR,
    SHEDDING: "true",
    # the defaults are for whole machines: a broker with a third of a core never has so much to shed
    "loadBalancerBundleUnloadMinThroughputThreshold": "0.01",  # of ThresholdShedder, MB/s; its default is 10
    "minUnloadMessage": "10",  # of AvgShedder; its defaults are 1,000 messages/s and 1 MiB/s
    "minUnloadMessageThroughput": "10486",
}
_SAMPLE_S: Final = 30.0
_SETTLES_S: Final = 15.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a run. `above` are the points above the mean in each 30 s, `moves` the moves that were seen,
    `twice` how many of them moved a bundle that had moved before."""

    who: str
    load_average: float
    above: list[float]
    usage: float
    moves: int
    twice: int
    messages: int
    gap_s: float
    p999_s: float
    lost: int

    def row(self) -> list[object]:
        mean = sum(self.above) / len(self.above)
        even = sum(value <= 10 for value in self.above) / len(self.above)
        figures = [mean, max(self.above), 100 * even, self.usage]
        rest = [self.moves, self.twice, self.gap_s, self.p999_s, self.messages, self.lost, self.load_average]
        return [self.who, *(round(value, 1) for value in figures), *(_shown(value) for value in rest)]


def _shown(value: float) -> object:
    return f"{value:,}" if isinstance(value, int) else round(value, 2)


HEADER: Final = (
    *("balancer", "above the mean, points", "worst 30 s", "% of the time balanced", "mean usage, %"),
    *("moves", "of a bundle again", "gap, s", "p99.9, s", "messages", "lost", "load average"),
)


def java_and_jars(line: str) -> tuple[str, list[str]]:
    """Return the path of a Java, and the jars of a broker of this line of versions.

    Raises:
        PeerUnavailableError: there is no Maven, no network or no JDK.
    """
    return (java_of(21)[0], resolve_class_path_5_0_1()) if line == "5.x" else (java_of(17)[0], resolve_class_path()[1])


def version_of(line: str) -> str:
    """Return the version of the brokers of this line; `java_and_jars` has found it before."""
    return VERSION_5 if line == "5.x" else pulsar_version()


def topics_on_two(cluster: ApachePulsar) -> list[str]:
    """Make the topics, all on the first two brokers; return them."""
    cluster.expect(204, "PUT", f"/admin/v2/namespaces/{_NAMESPACE}", json={"bundles": {"numBundles": BUNDLES}})
    topics = [f"persistent://{_NAMESPACE}/tweets-{number:02d}" for number in range(TOPICS)]
    bundles = sorted({cluster.bundle_path(topic) for topic in topics})
    wanted = {path: cluster.brokers[number % 2] for number, path in enumerate(bundles)}
    for topic in topics:
        path = cluster.bundle_path(topic)
        broker = wanted[path]

        def is_there(topic: str = topic, path: str = path, broker: Any = broker) -> bool:
            status, answer = cluster.call("GET", lookup_path(topic))
            if status == 200 and answer["brokerUrl"] == broker.service_url:
                return True
            cluster.call("PUT", f"{path}/unload?destinationBroker={broker.broker_id}")
            return False

        soon(is_there, what=f"{topic} is on {broker.broker_id}")
    return topics


@contextmanager
def balancer(cluster: ApachePulsar, state: Path, mode: str, words: list[str]) -> Iterator[None]:
    """Run `barycenter balance` beside the cluster; its lines are in state/told."""
    state.mkdir()
    command = [sys.executable, "-m", "pulsar_barycenter", "balance", "--url", cluster.brokers[0].web_url]
    options = ["--service-url", cluster.service_url, "--state", str(state), "--mode", mode, "--json", *words]
    with (state / "told").open("w") as told:
        process = subprocess.Popen([*command, *options], stdout=subprocess.DEVNULL, stderr=told, env=dict(os.environ))
        try:
            yield
            if process.poll() is not None:
                raise RuntimeError(f"balance ended: {(state / 'told').read_text()[-2000:]}")
        finally:
            process.terminate()
            process.wait(180)


def moves_in(state: Path) -> tuple[int, int]:
    """Return the moves that the rounds saw, and how many were of a bundle that had moved before."""
    rounds = [json.loads(line) for line in (state / "rounds.jsonl").read_text().splitlines()]
    bundles = [move["bundle"] for one in rounds for move in one.get("seen", ())]
    return len(bundles), len(bundles) - len(set(bundles))


def sampled(used: Shares, minutes: float, cores: float) -> tuple[list[float], float]:
    """Return the points above the mean of each 30 s, and the mean usage of all brokers in percent of their quota."""
    above, usages = [], []
    before, at_s = used.used_s(), time.monotonic()
    for _ in range(round(minutes * 60 / _SAMPLE_S)):
        time.sleep(_SAMPLE_S)
        now, now_s = used.used_s(), time.monotonic()
        parts = [100 * (new - old) / (now_s - at_s) / cores for new, old in zip(now, before, strict=True)]
        mean = sum(parts) / len(parts)
        above.append(max(parts) - mean)
        usages.append(mean)
        before, at_s = now, now_s
        print(f"  {[round(part) for part in parts]} %", file=sys.stderr, flush=True)
    return above, sum(usages) / len(usages)


def run(who: str, options: argparse.Namespace, folder: Path) -> Outcome:
    """Measure one cluster."""
    load_average = os.getloadavg()[0]
    java, jars = java_and_jars(options.pulsar)
    with (
        shares(folder, BROKERS, java) as used,
        apache_pulsar(
            folder,
            brokers=BROKERS,
            configuration=_CONFIGURATION,
            # the classes of a JVM are kept by its path, and this one is of the run
            deployment=replace(QUICK, maps_classes=False),
            java_and_jars=(str(used.java), jars),
        ) as cluster,
    ):
        topics = topics_on_two(cluster)
        steps = int(options.minutes * 60 / options.step) + 1
        rates = rates_of(options.data, len(topics), steps, options.rate)
        traffic = Traffic(cluster.service_url, dict(zip(topics, rates, strict=True)), options.step)
        lost = -1
        try:
            used.limit(options.cores)
            traffic.start()
            time.sleep(_SETTLES_S)
            with balancer(cluster, folder / "state", _MODES[who], options.balance):
                traffic.forget()
                above, usage = sampled(used, options.minutes, options.cores)
                latencies = traffic.latencies_s()
        finally:
            lost = traffic.close()
        moves, twice = moves_in(folder / "state")
        told = (folder / "state" / "told").read_text()
        print(told, file=sys.stderr)
    gap_s, p999_s = max(latencies), percentile(latencies, 99.9)
    return Outcome(who, load_average, above, usage, moves, twice, len(latencies), gap_s, p999_s, lost)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of CSV files with timestamp,value")
    parser.add_argument("--pulsar", choices=VERSIONS, default="4.x", help="the line of versions of the brokers")
    parser.add_argument("--runs", type=int, default=5, help="of each; they take turns")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--step", type=float, default=15, help="seconds in which half an hour of a trace is played")
    parser.add_argument("--rate", type=float, default=900, help="messages a second of all topics, on average")
    parser.add_argument("--cores", type=float, default=0.4, help="the CPU quota of a broker")
    parser.add_argument("--only", choices=_MODES, help="measure one of the two")
    parser.add_argument("--json", type=Path, help="append each result to this file")
    parser.add_argument("balance", nargs="*", help="options of barycenter balance, after --")
    options = parser.parse_args()
    found: list[Outcome] = []
    try:
        for number in range(options.runs):
            for who in [options.only] if options.only else list(_MODES):
                print(f"run {number + 1}: {who}", file=sys.stderr, flush=True)
                with tempfile.TemporaryDirectory(prefix="barycenter-bench-") as folder:
                    found.append(run(who, options, Path(folder)))
                print(found[-1].row(), file=sys.stderr, flush=True)
                if options.json is not None:
                    with options.json.open("a") as file:
                        version = version_of(options.pulsar)
                        file.write(json.dumps({"pulsar": version, "machine": machine(), "row": found[-1].row()}) + "\n")
    except (PeerUnavailableError, NoSharesError) as error:
        sys.exit(f"Nothing was measured: {error}")
    finally:
        if found:
            print_table(f"Apache Pulsar {version_of(options.pulsar)}", HEADER, [one.row() for one in found])


if __name__ == "__main__":
    main()
