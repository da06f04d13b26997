"""`barycenter pipeline prepare`: the archive of Spark's classes, made, shown and removed."""

import os
import time

import click

from pulsar_barycenter.cli.failure import fail
from pulsar_barycenter.pipeline.running.archive_making import CannotMakeError, make_archive
from pulsar_barycenter.pipeline.spark.class_archive import remove_all, size_of
from pulsar_barycenter.pipeline.spark.java import JavaNotFoundError
from pulsar_barycenter.pipeline.spark.java_cache import default_folder
from pulsar_barycenter.terminal.errors import in_words
from pulsar_barycenter.terminal.progress import spark_start


@click.command(name="prepare")
@click.option("--remove", is_flag=True, help="Remove all archives instead, of every Java and PySpark.")
def command(remove: bool) -> None:
    """Make the archive of Spark's classes, with which each start of Spark takes a third of the CPU time.

    It lies in ~/.cache/barycenter/java, or below XDG_CACHE_HOME or BARYCENTER_CACHE, takes some 200 MB and fits one
    build of Java and of PySpark; the three used last are kept, in 1 GiB. Without this command it is made in the
    background, once, when the first command that starts Spark ends. With BARYCENTER_CLASS_ARCHIVE=off none is made so
    or used.

    Ends with 0 if the archive is there, with 1 if it cannot be made.
    """
    try:
        if remove:
            freed = remove_all(default_folder(os.environ))
            click.echo(f"removed {freed / 1e6:,.0f} MB from {default_folder(os.environ)}")
            return
        started = time.monotonic()
        with spark_start() as on_phase:
            on_phase("making the archive of Spark's classes; takes as long as three starts of Spark")
            archive = make_archive(os.environ)
    except (CannotMakeError, JavaNotFoundError, OSError, RuntimeError) as error:
        fail(f"there is no archive of Spark's classes: {in_words(error)}")
        return
    seconds = time.monotonic() - started
    click.echo(
        f"{archive.folder}: {size_of(archive.folder) / 1e6:,.0f} MB, for Java {archive.java.version}; {seconds:.1f} s"
    )
