"""`barycenter pipeline files`: prints the files of a table, for engines that take a list of Parquet files."""

import click

from pulsar_barycenter.cli.pipeline.data_folder import opened
from pulsar_barycenter.pipeline.running.job_options import DataFolder, with_spark_settings
from pulsar_barycenter.pipeline.tables.files import table_files
from pulsar_barycenter.pipeline.tables.schemas import TABLES


@click.command(name="files")
@click.argument("table", type=click.Choice(list(TABLES)))
@click.option("--data", required=True, type=DataFolder(exists=True), metavar="DIR", help="Data folder of the cluster.")
@with_spark_settings
def command(table: str, data: str, conf: dict[str, str]) -> None:
    """Print the Parquet files that make up TABLE, one on each line. Each row of the table is in exactly one of them.

    A pipeline that was killed may have left files whose rows are in a compacted one as well; these are left out.
    """
    with opened(data, conf, answers_a_program=True) as storage:
        paths = [storage.address(file.path) for file in table_files(storage, table)]
    for path in paths:
        click.echo(path)
