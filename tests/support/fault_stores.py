"""The stores of clusters that faults befall: their servers, how brokers use them, and what is checked at the end."""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from signal import Signals
from typing import Final, Protocol

from pulsar_barycenter.ledger.bookkeeper_storage.opened_bookies import opened_bookies
from support.cluster_on_bookies import ON_BOOKIES
from support.etcd_server import etcd_ensemble
from support.fault_schedule import OF_BOOKIES, Begun, near
from support.ledger_audit import audited_ledgers
from support.oxia_server import leader_of, oxia_ensemble
from support.real_bookies import RealBookies, bookies_on, bookkeeper_class_path
from support.zookeeper_server import ZooKeeperServer, zookeeper_ensemble

BOOKIES: Final = 4
"""One more than a ledger is on, so that one may be away."""


class Server(Protocol):
    """A process that can be killed, started again, stopped and continued."""

    def kill(self) -> None: ...

    def start(self) -> None: ...

    def wait_ready(self) -> bool: ...

    def signal(self, number: Signals) -> None: ...


class Node(Server, Protocol):
    """One server of a store."""

    endpoint: str


async def _nothing_to_check(begun: Sequence[Begun]) -> None:
    """A store without ledgers has none to check."""


@dataclass(frozen=True)
class Store:
    """The servers of a store, none for a file; the one that leads, if any; the URL of some endpoints.

    `bookies` are the servers with the messages, if these are not in a folder that all brokers share. `configuration`
    are keys of the brokers. `check` is called with all faults when the brokers have stopped. It raises AssertionError.
    """

    name: str
    nodes: Sequence[Node] = ()
    leader: Callable[[], Node | None] = lambda: None
    url: Callable[[Sequence[str]], str] = lambda endpoints: ""
    bookies: Sequence[Server] = ()
    configuration: Mapping[str, str] = field(default_factory=dict)
    check: Callable[[Sequence[Begun]], Awaitable[None]] = _nothing_to_check


@contextmanager
def running_store(name: str, folder: Path) -> Iterator[Store]:
    """Run the three servers of a store while the block lasts; a file needs none.

    Skips the test if they are not available.

    Raises:
        PeerUnavailableError: there are no bookies to be had.
    """
    match name:
        case "zookeeper":
            with zookeeper_ensemble(folder) as servers:
                yield _zookeeper(name, servers)
        case "etcd":
            with etcd_ensemble(folder) as members:
                yield Store(
                    name,
                    members,
                    lambda: next((each for each in members if each.is_leader()), None),
                    lambda endpoints: f"etcd:{','.join(f'http://{each}' for each in endpoints)}/faults",
                )
        case "oxia":
            with oxia_ensemble(folder) as nodes:
                yield Store(
                    name,
                    nodes,
                    lambda: leader_of(nodes),
                    lambda endpoints: f"oxia://{','.join(endpoints)}/default/faults",
                )
        case "bookies":
            class_path = bookkeeper_class_path()
            with zookeeper_ensemble(folder) as servers:
                endpoints = ",".join(server.endpoint for server in servers)
                with bookies_on(endpoints, folder, BOOKIES, class_path) as bookies:
                    yield _with_bookies(_zookeeper(name, servers), bookies)
        case _:
            yield Store(name)


def _zookeeper(name: str, servers: Sequence[ZooKeeperServer]) -> Store:
    return Store(
        name,
        servers,
        lambda: next((each for each in servers if each.is_leader), None),
        lambda endpoints: f"zk:{','.join(endpoints)}/faults",
    )


def _with_bookies(store: Store, bookies: RealBookies) -> Store:
    """Return `store` with bookies whose metadata is in the same store, in the folder where Pulsar has it."""

    async def check(begun: Sequence[Begun]) -> None:
        async with opened_bookies("", bookies.url) as (metadata, client):
            audit = await audited_ledgers(metadata, client, bookies.shell)
        print(
            f"ledgers of topics: {audit.listed}, of which {audit.recovered} had to be recovered; entries:"
            f" {audit.entries}; ledgers that no topic lists: {len(audit.unlisted)}"
        )
        causes = {ledger: near(begun, created_at_ms) for ledger, created_at_ms in audit.unlisted.items()}
        for ledger, faults in causes.items():
            print(f"no topic lists ledger {ledger}, created near: {'; '.join(map(str, faults))}")
        unexplained = [ledger for ledger, faults in causes.items() if all(fault.kind in OF_BOOKIES for fault in faults)]
        assert not unexplained, f"no topic lists these ledgers, and no fault explains that: {unexplained}"

    return replace(
        store,
        url=lambda endpoints: f"zk:{','.join(endpoints)}",
        bookies=bookies.bookies,
        configuration={**ON_BOOKIES, "bookkeeperClientTimeoutInSeconds": "2"},
        check=check,
    )
