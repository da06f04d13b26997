"""`barycenter pipeline run`: the pipeline as a process of its own, until Ctrl-C."""

import sys
from contextlib import suppress
from typing import Any

import click

from pulsar_barycenter.cli.failure import fail
from pulsar_barycenter.cli.folders import keep_private
from pulsar_barycenter.cli.pipeline.event_lines import person_renderer
from pulsar_barycenter.cluster_logs.data_folder import WrongFolderError, check_load_folder
from pulsar_barycenter.pipeline.job import run_job
from pulsar_barycenter.pipeline.running.job_log import configure_logging
from pulsar_barycenter.pipeline.running.job_options import JobOptions, with_job_options
from pulsar_barycenter.pipeline.storage.files import local_folder
from pulsar_barycenter.terminal.errors import in_words


@click.command(name="run")
@with_job_options
def command(**options: Any) -> None:
    """Fold the load reports under DIR into its tables until Ctrl-C, which ends between two batches.

    Reads DIR/load-reports and DIR/decisions as brokers and `barycenter collect` write them; `barycenter standalone`
    runs the same job by itself. Logs each batch: a line for a person on a terminal, else a JSON object. What is done
    while Spark starts is told on standard error.

    Ends with 0, with 1 if it could not start, or with --once if reports could not be folded. With --once it ends with 3
    if the tables are not what all files there make of them: something was refused, came too late or waits for a report
    before it; `barycenter pipeline status` says what.
    """
    keep_private()
    folder = local_folder(options["data"])
    try:
        if folder is not None:
            check_load_folder(folder, may_be_empty=False)
    except (OSError, WrongFolderError) as error:
        fail(in_words(error))
    is_person = sys.stdout.isatty()
    configure_logging(sys.stdout, renderer=person_renderer if is_person else None)

    def say(phase: str) -> None:
        with suppress(OSError):  # what is said of the start must not end the job
            click.echo(phase, err=True)

    if is_person:
        say("Ctrl-C ends the pipeline between two batches")

    sys.exit(run_job(JobOptions(**options), on_phase=say))
