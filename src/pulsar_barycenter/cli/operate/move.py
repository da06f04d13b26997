"""`barycenter move`: moves a bundle, or the bundles of a topic, to a given broker."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import click

from pulsar_barycenter.cli.asking.client import asked_url, asking_client
from pulsar_barycenter.cli.failure import fail
from pulsar_barycenter.cli.operate.carrying_out import (
    carry_out,
    journal_of_bundle,
    open_cluster,
    print_moves,
    tell_journal,
    with_audit,
    with_cluster,
)
from pulsar_barycenter.naming.errors import InvalidNameError
from pulsar_barycenter.naming.topic import TopicName
from pulsar_barycenter.observer.running_cluster import ClusterError
from pulsar_barycenter.observer.topic_names import NoSuchTopicError, bundles_of_topic
from pulsar_barycenter.operations.executor import NotNowError, Pace, RefusedError
from pulsar_barycenter.operations.journal import move_journal
from pulsar_barycenter.operations.plan import PlannedMove, plan_of
from pulsar_barycenter.questions.past_state import Subject
from pulsar_barycenter.terminal.suggestions import did_you_mean
from pulsar_barycenter.terminal.tables import printable


@click.command(name="move")
@click.argument("name", metavar="TOPIC|BUNDLE")
@click.option("--to", "destination", required=True, metavar="HOST:PORT", help="The broker that is to serve it.")
@with_cluster
@with_audit("move-TENANT-NAMESPACE-RANGE.journal")
def command(
    name: str, destination: str, url: str | None, yes: bool, timeout_s: float, journal_file: Path | None, why: str
) -> None:
    """Move a bundle to a broker of Barycenter or Apache Pulsar; wait until the broker serves it.

    A topic (orders, tenant/namespace/orders, or the full name) moves with its bundle, and so do all other topics of
    that bundle. A partitioned topic moves with the bundles of all its partitions.

    Clients reconnect to the new broker. A later round of the load manager may move the bundle again; `explain` shows
    why. The journal records who moved it, when and why; `undo` reverses the move.

    Without --yes the command only shows the moves; a bundle without an owner then stays without one.

    Exit code: 0; 1 if the broker does not serve the bundle; 2 for wrong usage.
    """
    address = asked_url(url)
    try:
        bundles, moves = [], []
        for bundle, said in _meant(address, name):
            if said:
                click.echo(printable(said))
            bundles.append(bundle)
        sources = asyncio.run(_sources(address, bundles, destination, gives_owners=yes))
        for bundle, source in zip(bundles, sources, strict=True):
            if source == destination:
                click.echo(f"{destination} serves {bundle} already")
            else:
                moves.append(PlannedMove(bundle=bundle, source=source, destination=destination))
    except (NotNowError, RefusedError, ClusterError, NoSuchTopicError) as error:
        fail(str(error))
        return
    if not moves:
        return
    plan = plan_of(moves)
    if not yes:
        print_moves(plan.moves)
        click.echo("nothing is done without --yes")
        return
    journal = move_journal(journal_file or journal_of_bundle(moves[0].bundle if len(moves) == 1 else name))
    tell_journal(journal)
    carry_out(plan, plan.moves, address, Pace(timeout_s=timeout_s), journal, why, operation="move")


def _meant(url: str, name: str) -> list[tuple[str, str]]:
    """Return the bundles that a name of a bundle or topic means. Each has a line of text that names the requested
    topics in it, blank if `name` is a bundle.

    Raises:
        click.UsageError: the name is neither a bundle nor a topic.
        ClusterError, NoSuchTopicError: the topic does not exist, or no broker returned its bundle.
    """
    try:
        subject = Subject.of(name)
    except InvalidNameError as error:
        raise click.UsageError(f"{name}: {error}") from error
    if subject.kind == "broker":
        raise click.UsageError(f"{name} is a broker; to empty it: barycenter drain {name}")
    if subject.kind == "bundle":
        return [(subject.name, "")]
    return [
        (found.bundle, str(found))
        for found in asyncio.run(bundles_of_topic(asking_client, url, TopicName.parse(subject.name)))
    ]


async def _sources(url: str, bundles: Sequence[str], destination: str, *, gives_owners: bool) -> list[str]:
    """Return the broker that serves each bundle, blank if none does.

    With `gives_owners`, bundles without an owner are looked up, which assigns them to a broker.

    Raises:
        NotNowError, RefusedError: the owner is not known, a bundle does not exist, or the destination is not
            registered.
    """
    client, cluster = open_cluster(url)
    try:
        brokers = await cluster.brokers()
        if destination not in brokers:
            raise RefusedError(f"{destination} is not registered{did_you_mean(destination, brokers)}")
        owners = await cluster.owners(bundles)
        if not gives_owners:
            return [owners[bundle] for bundle in bundles]
        sources = []
        for bundle in bundles:
            owner = owners[bundle] or await cluster.look_up(bundle)
            if not owner:
                raise RefusedError(
                    f"no topic of {bundle} can be looked up, so its owner cannot be found; nothing was moved: try again"
                )
            sources.append(owner)
        return sources
    finally:
        await client.close()
