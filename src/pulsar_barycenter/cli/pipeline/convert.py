"""`barycenter pipeline convert`: changes the format of the tables of a data folder."""

import time

import click

from pulsar_barycenter.cli.failure import fail
from pulsar_barycenter.cli.folders import keep_private
from pulsar_barycenter.cluster_logs.data_folder import WrongFolderError, check_load_folder
from pulsar_barycenter.pipeline.deletion.marker import refuse_unfinished
from pulsar_barycenter.pipeline.running.job_options import DataFolder
from pulsar_barycenter.pipeline.storage.files import local_folder
from pulsar_barycenter.pipeline.storage.layout import PipelineLayout
from pulsar_barycenter.pipeline.storage.lock import AlreadyRunningError, exclusive
from pulsar_barycenter.pipeline.stream.state import StateFolder
from pulsar_barycenter.pipeline.tables.files import Tables
from pulsar_barycenter.pipeline.tables.formats import delete_logs, open_log
from pulsar_barycenter.pipeline.tables.table_log import TableFormat
from pulsar_barycenter.terminal.errors import in_words


@click.command(name="convert")
@click.option("--data", required=True, type=DataFolder(exists=True), metavar="DIR", help="Data folder of the cluster.")
@click.option(
    "--to", "table_format", required=True, type=click.Choice(TableFormat, case_sensitive=False), help="The new format."
)
def command(data: str, table_format: TableFormat) -> None:
    """Add a log of Delta Lake to the tables of DIR, or remove it; the pipeline must not run.

    No file with rows is written or changed, and the next run keeps the format. If a conversion was interrupted, run the
    command again.
    """
    folder = local_folder(data)
    if folder is None:
        fail(f"{data} is not a folder on this machine; only tables in a local folder can have the Delta format")
        return
    try:
        check_load_folder(folder, may_be_empty=False)
        keep_private()
        layout = PipelineLayout.of(folder)
        with exclusive(layout, clock_ms=_clock_ms):
            refuse_unfinished(layout)
            table_log = open_log(layout, table_format, clock_ms=_clock_ms)
            if table_format is TableFormat.PARQUET:
                delete_logs(layout)
            completed = StateFolder(layout).batch_ids()
            Tables(layout, table_log).clear_unfinished(completed[-1] if completed else None)
    except (AlreadyRunningError, OSError, WrongFolderError) as error:
        fail(in_words(error))
        return
    click.echo(f"done: the tables in {folder} have the format {table_format} now")


def _clock_ms() -> int:
    return time.time_ns() // 1_000_000
