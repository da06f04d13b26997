"""`barycenter top`: shows a running cluster on the whole terminal, and refreshes it."""

import asyncio
import sys
from typing import Final

import click

from pulsar_barycenter.cli.asking.client import URL_VARIABLE, asked_url, asking_client
from pulsar_barycenter.cli.asking.options import with_client_conf
from pulsar_barycenter.cli.failure import fail
from pulsar_barycenter.load.bundle_load import IN_AND_OUT, NEWEST
from pulsar_barycenter.load.managers import short_name
from pulsar_barycenter.naming.counted import count_of
from pulsar_barycenter.observer.running_cluster import decisions_of, snapshot_of
from pulsar_barycenter.questions.topics import topics_of
from pulsar_barycenter.screen.top_screen import ClusterView, TopScreen
from pulsar_barycenter.status.board import board_of

_DECISIONS: Final = 500
"""The number of last decisions that each broker is asked for."""


@click.command(name="top")
@click.option("--url", help=f"The web address of any broker.  [{URL_VARIABLE}; http://127.0.0.1:8080]")
@click.option(
    "--interval",
    "interval_s",
    default=5.0,
    show_default=True,
    type=click.FloatRange(0.5, 3600),
    help="Seconds between two queries.",
)
@with_client_conf
def command(url: str | None, interval_s: float) -> None:
    """Show a running cluster live: tables of brokers, bundles, decisions and topics, with the reason of each decision.

    Keys: 1 to 4 choose a table, s chooses the sort column, r reverses the order, / filters. Enter on a broker shows its
    bundles, on a bundle its topics, on a topic the decisions about its bundle and their reasons; w shows these at once.
    The load is the one on which the leader decides. Topics are queried while they are shown, at most 200.

    Needs a terminal; in scripts use `barycenter status`. Apache Pulsar's leader does not publish the input of its
    decisions; for Apache Pulsar, use `status`.
    """
    if not sys.stdout.isatty():
        raise click.UsageError("top needs a terminal; `barycenter status` prints once, and as JSON with --json")
    address = asked_url(url)

    screen = TopScreen(lambda: seen_at(address), lambda bundles: topics_of(asking_client, address, bundles), interval_s)
    screen.run()
    if screen.return_code:
        fail("the screen ended with an error")


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
