"""`barycenter snapshot`: what the leader of a running cluster decides upon, as a file."""

import asyncio
from pathlib import Path

import click

from barycenter.cli.ask.running_cluster import ClusterError, snapshot_of
from barycenter.cli.failure import fail, in_words
from barycenter.snapshots.snapshot_file import write_snapshot


@click.command(name="snapshot")
@click.option("--url", default="http://127.0.0.1:8080", show_default=True, help="The web address of any broker.")
@click.option("--out", required=True, type=click.Path(dir_okay=False, path_type=Path), help="The file to write.")
def command(url: str, out: Path) -> None:
    """Save what the leader decides upon.

    Loads, windows, bundles on their way, policies, what the shedder remembers, and the configuration: all that
    `barycenter decide` needs to say what the leader would do.
    """
    try:
        document = asyncio.run(snapshot_of(url))
        write_snapshot(out, document)
    except (ClusterError, OSError) as error:
        fail(in_words(error))
        return
    bundles = sum(len(report.last_stats) for report in document.brokers.values())
    click.echo(f"{out}: {len(document.brokers):,} brokers, {bundles:,} bundles")
