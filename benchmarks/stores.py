"""Measures the effect of each metadata store on a cluster: hand-over, fail-over, start storm, operations, memory.

Each store is a real one on loopback: SQLite's file, one ZooKeeper from the jars of pyspark, one etcd of the PATH; all
three sync what they answer. The servers of a deployment have disks of their own and are further away; what is compared
here is the work.

- *Hand-over*: the longest time without a receipt around an unload to a given broker, under a running client.
- *Fail-over*: the same around the owner's death by SIGKILL; a session's end is a part of it.
- *All served*: see `start_storm`.
- *Operations*: what one broker, which leads and owns, asks of its store while it acquires bundles that are looked up
  for the first time, and while it writes load reports; divided by their numbers.
"""

import argparse
import asyncio
import logging
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import structlog

from benchmarks import start_storm, unload_gap
from benchmarks.machine import percentile, print_table
from pulsar_barycenter.broker.broker import Broker
from pulsar_barycenter.broker.cluster.http_peers import HttpPeers
from pulsar_barycenter.broker.environment import Environment
from pulsar_barycenter.broker.namespaces.policies import BundlesData, Policies
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.ledger.files.file_storage import FileLedgerStorage
from pulsar_barycenter.metadata.clock import SystemClock
from pulsar_barycenter.metadata.open import open_store
from pulsar_barycenter.metadata.store import MetadataStore
from pulsar_barycenter.naming.bundles import NamespaceBundles
from pulsar_barycenter.naming.namespace import NamespaceName
from pulsar_barycenter.naming.topic import TopicName

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from support.etcd_server import etcd_server
from support.oxia_server import oxia_server
from support.start_storm import topic_in_each_bundle
from support.zookeeper_server import zookeeper_server

_OPERATIONS: Final = ("get", "put", "delete", "children", "exists")
_BUNDLES_OF_NAMESPACE: Final = 16
_COUNTED: Final = "public/counted"


class CountedStore:
    """A store that counts what it is asked."""

    def __init__(self, store: MetadataStore) -> None:
        self.asked: Counter[str] = Counter()
        self._store = store

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if name not in _OPERATIONS:
            return found

        def counted(*arguments: Any, **named: Any) -> Any:
            self.asked[name] += 1
            return found(*arguments, **named)

        return counted


async def operations(url: str, folder: Path, count: int) -> list[str]:
    """Return what one assignment asks of the store, and what one load report does, in words."""
    store = CountedStore(await open_store(url))
    ledgers = FileLedgerStorage(folder / "ledgers")
    wanted = BrokerConfig(
        broker_service_port=0, web_service_port=0, advertised_address="127.0.0.1", bind_address="127.0.0.1",
        barycenter_data_dir=str(folder), load_balancer_shedding_enabled=False,
    )  # fmt: skip
    broker = Broker(wanted, Environment(store, ledgers, SystemClock(), random.Random(1), HttpPeers()))
    await broker.start()
    try:
        bundles = NamespaceBundles.equal(NamespaceName.parse(_COUNTED), count)
        policies = Policies(replication_clusters=(wanted.cluster_name,), bundles=BundlesData.from_bundles(bundles))
        await broker.resources.namespaces.create(_COUNTED, policies)
        topics = [TopicName.parse(topic) for topic in topic_in_each_bundle(_COUNTED, count)]
        await broker.lookup.bundle_of(topics[0])

        async def assign(number: int) -> None:
            await broker.lookup.lookup(topics[number])

        async def report(_: int) -> None:
            await broker.load_manager.write_report(force=True)

        return [await _asked(store, work, count) for work in (assign, report)]
    finally:
        await broker.stop()
        await ledgers.close()
        await store.close()


async def _asked(store: CountedStore, work: Callable[[int], Any], times: int) -> str:
    store.asked.clear()
    for number in range(times):
        await work(number)
    return ", ".join(f"{asked / times:.2f} {name}" for name, asked in sorted(store.asked.items()))


@contextmanager
def servers(names: Sequence[str], folder: Path) -> Iterator[dict[str, Callable[[str], str]]]:
    """Start the servers of these stores; each is called with a word to have the URL of an empty place."""
    with ExitStack() as stack:
        found: dict[str, Callable[[str], str]] = {}
        if "sqlite" in names:
            found["sqlite"] = lambda word: f"sqlite:{folder / f'{word}.sqlite'}"
        if "zookeeper" in names:
            zookeeper = stack.enter_context(zookeeper_server(folder / "zookeeper", syncs=True))
            found["zookeeper"] = lambda word: f"{zookeeper.url}/{word}"
        if "etcd" in names:
            etcd = stack.enter_context(etcd_server(folder / "etcd"))
            found["etcd"] = lambda word: f"etcd:{etcd.url}/{word}"
        if "oxia" in names:
            oxia = stack.enter_context(oxia_server(folder / "oxia"))
            found["oxia"] = lambda word: f"oxia:{oxia.url}/{word}"
        yield found


async def measure(given: argparse.Namespace) -> None:
    moves: list[list[object]] = []
    storms: list[list[object]] = []
    asked: list[list[object]] = []
    with tempfile.TemporaryDirectory(prefix="barycenter-bench-") as temporary, ExitStack() as stack:
        folder = Path(temporary)
        for name, place in stack.enter_context(servers(given.stores, folder)).items():
            asked.append([name, *await operations(place("operations"), folder / name, given.operations)])
            gaps, verdict = await unload_gap.run(
                {}, [unload_gap.GIVEN] * given.unloads, given.session_ms, metadata_store_url=place("gap")
            )
            for event, found in gaps.items():
                moves.append([name, event, len(found), *(1000 * percentile(found, p) for p in (50, 99)), verdict])
            for bundles in given.bundles:
                namespaces = max(1, bundles // _BUNDLES_OF_NAMESPACE)
                each = min(bundles, _BUNDLES_OF_NAMESPACE)
                rows = await start_storm.measure(3, namespaces, each, given.clients, place(f"storm-{bundles}"), {})
                storms += [[name, *row] for row in rows]
    print_table("Store operations", ["store", "an assignment", "a load report"], asked)
    print_table("Hand-over and fail-over", ["store", "event", "times", "p50 ms", "p99 ms", "messages"], moves)
    print_table("All served, 3 brokers", ["store", *start_storm.HEADER], storms)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    known = ["sqlite", "zookeeper", "etcd"]
    parser.add_argument("--stores", nargs="*", choices=[*known, "oxia"], default=known)
    parser.add_argument("--unloads", type=int, default=100)
    parser.add_argument("--session-ms", type=int, default=10_000)
    parser.add_argument("--bundles", type=int, nargs="*", default=[1_000, 16_000])
    parser.add_argument("--clients", type=int, default=1_000)
    parser.add_argument("--operations", type=int, default=128, help="assignments and reports that are counted")
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    asyncio.run(measure(parser.parse_args()))


if __name__ == "__main__":
    main()
