"""`barycenter snapshot`: saves the input of the leader's decisions as a file."""

import asyncio
from pathlib import Path
from typing import Final

import click

from pulsar_barycenter.cli.asking.client import asked_url, asking_client
from pulsar_barycenter.cli.asking.options import with_client_conf
from pulsar_barycenter.cli.failure import fail
from pulsar_barycenter.load.snapshot.document import encode_snapshot
from pulsar_barycenter.naming.counted import bundles_in_words, count_of
from pulsar_barycenter.observer.running_cluster import ClusterError, snapshot_of
from pulsar_barycenter.snapshots.snapshot_file import write_snapshot
from pulsar_barycenter.terminal.errors import in_words

_OUT: Final = "The file to write: Parquet if the name ends with .parquet, else JSON; - is standard output."


@click.command(name="snapshot")
@click.option("--url", help="The web address of any broker.  [BARYCENTER_URL; http://127.0.0.1:8080]")
@click.option("--out", required=True, type=click.Path(dir_okay=False, path_type=Path, allow_dash=True), help=_OUT)
@with_client_conf
def command(url: str | None, out: Path) -> None:
    """Save the input of the leader's decisions to a file.

    The snapshot has the load, its windows, assignments that are not confirmed yet, policies, the shedder's memory and
    the configuration: all that `barycenter decide` needs to compute what the leader would do.
    """
    try:
        document = asyncio.run(snapshot_of(asking_client, asked_url(url)))
        if str(out) == "-":
            click.echo(encode_snapshot(document))
        else:
            write_snapshot(out, document)
    except (ClusterError, OSError) as error:
        fail(in_words(error))
        return
    names = [name for report in document.brokers.values() for name in report.last_stats]
    sizes = f"{count_of(len(document.brokers), 'broker')}, {bundles_in_words(names)}"
    click.echo(sizes if str(out) == "-" else f"{out}: {sizes}", err=str(out) == "-")
