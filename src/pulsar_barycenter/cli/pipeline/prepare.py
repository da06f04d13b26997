"""`barycenter pipeline prepare`: creates, shows and removes the archive of Spark's classes."""

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
@click.option("--remove", is_flag=True, help="Delete all archives instead, for every Java and PySpark.")
def command(remove: bool) -> None:
    """Create the archive of Spark's classes. With it, a start of Spark takes a third of the CPU time.

    The archive is in ~/.cache/barycenter/java, or below XDG_CACHE_HOME or BARYCENTER_CACHE. It takes about 200 MB and
    is for one build of Java and of PySpark. The three archives used last are kept, 1 GiB at most. Without this command,
    the archive is created in the background when the first command that starts Spark ends. BARYCENTER_CLASS_ARCHIVE=off
    disables this, and the use of archives.

    Exit code: 0 if the archive exists; 1 if it cannot be created.
    """
    try:
        if remove:
            freed = remove_all(default_folder(os.environ))
            click.echo(f"removed {freed / 1e6:,.0f} MB from {default_folder(os.environ)}")
            return
        started = time.monotonic()
        with spark_start() as on_phase:
            on_phase("creating the archive of Spark's classes; this takes as long as three starts of Spark")
            archive = make_archive(os.environ)
    except (CannotMakeError, JavaNotFoundError, OSError, RuntimeError) as error:
        fail(f"cannot create the archive of Spark's classes: {in_words(error)}")
        return
    seconds = time.monotonic() - started
    click.echo(
        f"{archive.folder}: {size_of(archive.folder) / 1e6:,.0f} MB, for Java {archive.java.version}; {seconds:.1f} s"
    )
