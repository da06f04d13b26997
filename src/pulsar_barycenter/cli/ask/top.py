"""`barycenter top`: shows a running cluster on the whole terminal, and refreshes it."""

import asyncio
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from pulsar_barycenter.admin.errors import AdminRequestError
from pulsar_barycenter.cli.asking.client import URL_VARIABLE, asked_url, asking_client, asking_conf
from pulsar_barycenter.cli.asking.options import with_client_conf
from pulsar_barycenter.cli.failure import fail
from pulsar_barycenter.cli.numbers import Number
from pulsar_barycenter.load.bundle_load import IN_AND_OUT, NEWEST
from pulsar_barycenter.load.managers import short_name
from pulsar_barycenter.naming.counted import count_of
from pulsar_barycenter.observer.collector import admin_urls
from pulsar_barycenter.observer.running_cluster import ClusterError, decisions_of, snapshot_of
from pulsar_barycenter.questions.topics import SeenTopics, topics_of
from pulsar_barycenter.screen.top_screen import ClusterView, TopScreen
from pulsar_barycenter.status.board import BundleRow, board_of
from pulsar_barycenter.terminal.errors import in_words
from pulsar_barycenter.watch.sources.error import WatchError

if TYPE_CHECKING:
    from pulsar_barycenter.watch.sources.source import Source
    from pulsar_barycenter.watch.watched_cluster import WatchedCluster

_NO_ROUTE: Final = 404
_DECISIONS: Final = 500
"""The number of last decisions that each broker is asked for."""


@click.command(name="top")
@click.option("--url", help=f"The web address of any broker.  [{URL_VARIABLE}; http://127.0.0.1:8080]")
@click.option(
    "--interval",
    "interval_s",
    default=5.0,
    show_default=True,
    type=Number(0.5, 3600),
    help="Seconds between two queries.",
)
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    help="Show the recording in this folder of collect, or of balance (--state), and what is added to it.",
)
@click.option("--service-url", default="", help="pulsar:// address; for Apache Pulsar's extensible load manager.")
@with_client_conf
def command(url: str | None, interval_s: float, data: Path | None, service_url: str) -> None:
    """Show a running cluster live: tables of brokers, bundles, decisions and topics, with the reason of each decision.

    Keys: 1 to 4 choose a table, s chooses the sort column, r reverses the order, / filters. Enter on a broker shows its
    bundles, on a bundle its topics, on a topic the decisions about its bundle and their reasons; w shows these at once.
    The load is the one on which the leader decides. Topics are queried while they are shown, at most 200.

    Apache Pulsar's leader does not publish the input of its decisions. Its brokers are asked for their load; the
    decisions are then the moves that were seen, with the reason recomputed, as in `barycenter watch`. So it is with
    --data.

    Needs a terminal; in scripts use `barycenter status`.
    """
    if not sys.stdout.isatty():
        raise click.UsageError("top needs a terminal; `barycenter status` prints once, and as JSON with --json")
    if data is not None and url is not None:
        raise click.UsageError("give --data to show a recording, or --url to ask brokers, not both")
    try:
        code = asyncio.run(_show("" if data is not None else asked_url(url), data, interval_s, service_url))
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    except (WatchError, OSError) as error:
        fail(in_words(error))
    if code:
        fail("the screen ended with an error")


async def _show(address: str, data: Path | None, interval_s: float, service_url: str) -> int | None:
    if data is None and not await is_foreign(address):
        screen = TopScreen(
            lambda: seen_at(address), lambda bundles: topics_of(asking_client, address, bundles), interval_s
        )
        await screen.run_async()
        return screen.return_code
    from pulsar_barycenter.watch.running import Wanted, opened  # brings numpy
    from pulsar_barycenter.watch.watched_cluster import WatchedCluster

    cluster = WatchedCluster()
    wanted = Wanted(
        urls=() if data is not None else admin_urls(address),
        data=data,
        interval_s=interval_s,
        service_url=service_url,
    )
    async with opened(asking_client, asking_conf(), wanted) as source:
        screen = TopScreen(lambda: watched(source, cluster), partial(_topics, address), interval_s)
        await screen.run_async()
        return screen.return_code


async def _topics(address: str, bundles: Sequence[BundleRow]) -> SeenTopics:
    if not address:
        raise ClusterError("a recording has no topics; give --url to ask the brokers")
    return await topics_of(asking_client, address, bundles)


async def is_foreign(address: str) -> bool:
    """Return whether the broker at `address` is Apache Pulsar's; False if it does not answer."""
    client = asking_client()
    try:
        await client.call("GET", address, "/barycenter/v1/overview")
    except AdminRequestError as error:
        return error.status == _NO_ROUTE
    finally:
        await client.close()
    return False


async def watched(source: "Source", cluster: "WatchedCluster") -> ClusterView:
    """Return the present state of a cluster that is observed from outside: read what is new from `source` into
    `cluster` first.

    Raises:
        ClusterError: the cluster cannot be read.
    """
    from pulsar_barycenter.watch.recorded_status import recorded_board
    from pulsar_barycenter.watch.running import take_new

    try:
        await take_new(source, cluster, asyncio.Lock())
    except WatchError as error:
        raise ClusterError(str(error)) from error
    board = recorded_board(cluster)
    about = (
        f"{count_of(len(board.brokers), 'broker')}, {count_of(len(board.bundles), 'bundle')}; {IN_AND_OUT} by the "
        f"{NEWEST}, sheds by {cluster.strategy}; seen from outside"
    )
    return ClusterView(about, board, list(cluster.decisions)[-_DECISIONS:])


async def seen_at(address: str) -> ClusterView:
    """Return the present state of the cluster of the broker at `address`.

    Raises:
        ClusterError: the broker does not answer.
    """
    snapshot, (decisions, _) = await asyncio.gather(
        snapshot_of(asking_client, address), decisions_of(asking_client, address, {"limit": str(_DECISIONS)})
    )
    board = board_of(snapshot)
    about = f"{count_of(len(board.brokers), 'broker')}, {count_of(len(board.bundles), 'bundle')}"
    drained = [status.broker for status in board.brokers if status.is_drained]
    about += f", drained: {', '.join(drained)}" if drained else ""
    strategy = short_name(snapshot.configuration.get("loadBalancerLoadSheddingStrategy", ""))
    about += f"; {IN_AND_OUT} by the {NEWEST}"
    return ClusterView(f"{about}, sheds by {strategy}" if strategy else about, board, decisions)
