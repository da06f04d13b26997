"""`barycenter move`: one bundle to a broker of one's choice."""

import asyncio
from pathlib import Path

import click

from pulsar_barycenter.cli.asking.client import asked_url
from pulsar_barycenter.cli.failure import fail
from pulsar_barycenter.cli.operate.carrying_out import (
    carry_out,
    journal_of_bundle,
    open_cluster,
    print_moves,
    with_audit,
    with_cluster,
)
from pulsar_barycenter.cli.suggestions import did_you_mean
from pulsar_barycenter.naming.bundle import Bundle
from pulsar_barycenter.naming.errors import InvalidNameError
from pulsar_barycenter.operations.executor import NotNowError, Pace, RefusedError
from pulsar_barycenter.operations.journal import Journal
from pulsar_barycenter.operations.plan import PlannedMove, plan_of


@click.command(name="move")
@click.argument("bundle", metavar="TENANT/NAMESPACE/RANGE")
@click.option("--to", "destination", required=True, metavar="HOST:PORT", help="The broker that shall serve it.")
@with_cluster
@with_audit("move-TENANT-NAMESPACE-RANGE.journal")
def command(
    bundle: str, destination: str, url: str | None, yes: bool, timeout_s: float, journal_file: Path | None, why: str
) -> None:
    """Move a bundle to a broker, of Barycenter or Apache Pulsar; succeeds only when it is served there.

    Clients are told where to go, or look up. The load managers' next round may move it again: `explain` tells why. The
    journal says who moved it, when and why; `undo` is the way back.

    Ends with 0, with 1 if it is not served there, with 2 for wrong usage.
    """
    address = asked_url(url)
    try:
        bundle = str(Bundle.parse(bundle))
    except InvalidNameError as error:
        raise click.UsageError(f"{bundle}: {error}") from error
    try:
        source = asyncio.run(_owner(address, bundle, destination))
        if source == destination:
            click.echo(f"{destination} serves {bundle} already")
            return
    except (NotNowError, RefusedError) as error:
        fail(str(error))
        return
    plan = plan_of([PlannedMove(bundle=bundle, source=source, destination=destination)])
    if not yes:
        print_moves(plan.moves)
        click.echo("nothing is done without --yes")
        return
    journal = Journal(journal_file or journal_of_bundle(bundle))
    carry_out(plan, plan.moves, address, Pace(timeout_s=timeout_s), journal, why, operation="move")


async def _owner(url: str, bundle: str, destination: str) -> str:
    """Return the broker that serves a bundle; a look-up gives one that nobody serves an owner.

    Raises:
        NotNowError, RefusedError: it cannot be told, or the destination is not there.
    """
    client, cluster = open_cluster(url)
    try:
        brokers = await cluster.brokers()
        if destination not in brokers:
            raise RefusedError(
                f"{destination} is not registered{did_you_mean(destination, brokers)}; there are {', '.join(brokers)}"
            )
        if await cluster.serves(destination, bundle):
            return destination
        owner = await cluster.look_up(bundle)
        if not owner:
            raise RefusedError(f"no topic of {bundle} can be looked up, so nobody can say who serves it")
        return owner
    finally:
        await client.close()
