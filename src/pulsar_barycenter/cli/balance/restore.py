"""`barycenter balance restore`: puts the cluster's own shedding back after a balancer that died."""

import asyncio
from pathlib import Path

import click

from pulsar_barycenter.balancer.facts import FactsError, one_cluster
from pulsar_barycenter.balancer.state_folder import StateError, StateFolder
from pulsar_barycenter.cli.asking.client import asked_url, asking_client
from pulsar_barycenter.cli.asking.options import with_client_conf
from pulsar_barycenter.cli.failure import fail
from pulsar_barycenter.operations.admin_cluster import AdminCluster
from pulsar_barycenter.operations.executor import NotNowError, RefusedError
from pulsar_barycenter.operations.journal_file import JournalError
from pulsar_barycenter.operations.own_balancing import Balancing, TakenOver
from pulsar_barycenter.terminal.errors import in_words


@click.command(name="restore")
@click.option("--url", help="The web address of any broker.")
@click.option(
    "--state",
    required=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="The folder of the balancer's state.",
)
@click.option("--yes", is_flag=True, help="Do it. Without --yes the command only shows what it would do.")
@with_client_conf
def command(url: str | None, state: Path, yes: bool) -> None:
    """Put back what a balancer that died had changed in the cluster.

    A balancer with the same --state does this itself when it ends. Use this if none is to be started again.

    Exit code: 0; 1 if a balancer runs, or the cluster does not take the value; 2 for wrong usage.
    """
    try:
        folder = StateFolder(state)
        with folder.journal.held():
            taken_over = folder.taken_over()
            if taken_over is None:
                click.echo(f"nothing to do: according to {state}, the balancer left no setting to put back")
                return
            click.echo(f"settings before the balancer changed them: {taken_over.sentence}")
            if not yes:
                click.echo("nothing is done without --yes")
                return
            stay = asyncio.run(_put_back(asked_url(url), folder, taken_over))
            click.echo("put back, except the settings that stay as they are" if stay else "put back")
    except (FactsError, StateError, JournalError, NotNowError, RefusedError, TimeoutError, OSError) as error:
        fail(in_words(error) or "the cluster did not answer in time")


async def _put_back(url: str, folder: StateFolder, taken_over: TakenOver) -> bool:
    """Restore the settings of the cluster, and print those that were not restored. Return whether there is a setting
    that was not restored.
    """
    client = asking_client(why="barycenter balance restore")
    try:
        cluster = AdminCluster(client, url)
        folder.check(await one_cluster({url: cluster}))
        kept = await Balancing(cluster).restore(taken_over.before)
        for key, why in kept.items():
            click.echo(f"the setting {key} stays as it is: {why}")
        folder.remember(None)
        return bool(kept)
    finally:
        await client.close()
