"""One ZooKeeper, its bookies, and the systems that keep their messages there; one system keeps them in files."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from benchmarks.pulsar.systems import BARYCENTER, PULSAR, System, barycenter_itself
from support.apache_pulsar import DURABLE, MODULAR, ApachePulsar, apache_pulsar

FILES: Final = f"{BARYCENTER}, files"
SESSION_MS: Final = 30_000
"""After how long without a heartbeat a broker counts as dead: Pulsar's default."""


@dataclass(frozen=True, slots=True)
class Ensemble:
    """The bookies, and how many of them a ledger has, an entry is written to, and must confirm it."""

    bookies: int
    ensemble_size: int
    write_quorum: int
    ack_quorum: int

    def keys(self) -> dict[str, str]:
        """Return the keys of broker.conf, which both systems have."""
        return {
            "managedLedgerDefaultEnsembleSize": str(self.ensemble_size),
            "managedLedgerDefaultWriteQuorum": str(self.write_quorum),
            "managedLedgerDefaultAckQuorum": str(self.ack_quorum),
        }

    def __str__(self) -> str:
        return f"{self.bookies} bookies, E{self.ensemble_size} W{self.write_quorum} A{self.ack_quorum}"


ENSEMBLES: Final = {1: Ensemble(1, 1, 1, 1), 3: Ensemble(3, 3, 3, 2)}
_KEYS: Final = {
    "loadManagerClassName": MODULAR,
    "loadBalancerSheddingEnabled": "false",
    "loadBalancerAutoBundleSplitEnabled": "false",
}


@dataclass(frozen=True, slots=True)
class Store:
    """The running store, with one broker of Apache Pulsar."""

    cluster: ApachePulsar
    ensemble: Ensemble
    session_ms: int

    def pulsar(self) -> System:
        """Return its broker of Apache Pulsar."""
        broker = self.cluster.brokers[0]
        assert broker.process is not None
        return self._shares(
            System(PULSAR, broker.service_url, broker.web_url, (broker.process.pid,), started_in_s=float("nan"))
        )

    @contextmanager
    def barycenter(self, folder: Path) -> Iterator[System]:
        """Start a broker of Barycenter on it. Brokers that are started in different folders are of one cluster."""
        with barycenter_itself(folder, configuration=self.configuration()) as system:
            yield self._shares(system)

    def configuration(self) -> Mapping[str, str]:
        """Return the keys of a broker of Barycenter on this store."""
        servers = self.cluster.metadata_url.removeprefix("zk:")
        return {
            **_KEYS,
            **self.ensemble.keys(),
            "metadataStoreSessionTimeoutMillis": str(self.session_ms),
            "metadataStoreUrl": f"zk:{servers}/barycenter",
            "barycenterLedgerStorage": "bookkeeper",
            "bookkeeperMetadataServiceUri": f"zk+hierarchical://{servers}/ledgers",
        }

    def _shares(self, system: System) -> System:
        return replace(system, store_ids=tuple(self.cluster.store_process_ids))


@contextmanager
def store(folder: Path, ensemble: Ensemble, *, brokers: int = 1, session_ms: int = SESSION_MS) -> Iterator[Store]:
    """Start ZooKeeper, the bookies, and `brokers` brokers of Apache Pulsar.

    Raises:
        PeerUnavailableError: there is no Maven, no JDK or no network.
    """
    deployment = replace(DURABLE, bookies=ensemble.bookies)
    keys = {**_KEYS, **ensemble.keys(), "metadataStoreSessionTimeoutMillis": str(session_ms)}
    with apache_pulsar(folder, brokers=brokers, configuration=keys, deployment=deployment) as cluster:
        yield Store(cluster, ensemble, session_ms)


@contextmanager
def systems(folder: Path, ensemble: Ensemble, names: tuple[str, ...]) -> Iterator[list[System]]:
    """Start the store and the named systems on it.

    Raises:
        PeerUnavailableError: there is no Maven, no JDK or no network.
    """
    with ExitStack() as running:
        shared = running.enter_context(store(_made(folder / "store"), ensemble))
        found = {PULSAR: shared.pulsar()}
        if BARYCENTER in names:
            found[BARYCENTER] = running.enter_context(shared.barycenter(_made(folder / "bookies")))
        if FILES in names:
            files = running.enter_context(barycenter_itself(_made(folder / "files")))
            found[FILES] = replace(files, name=FILES)
        yield [found[name] for name in names]


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder
