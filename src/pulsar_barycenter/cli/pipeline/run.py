"""`barycenter pipeline run`: runs the pipeline in this process until Ctrl-C."""

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
    """Fold the load reports under DIR into its tables until Ctrl-C, which stops after the current batch.

    The input is DIR/load-reports and DIR/decisions, written by brokers or `barycenter collect`. `barycenter standalone`
    starts the same job itself. Each batch is logged: as a line of text on a terminal, else as a JSON object. Standard
    error shows the phases of Spark's start.

    Exit code: 0; 1 if the pipeline could not start or, with --once, reports could not be folded; with --once 3 if the
    tables lack a part of the files: something was refused, came too late, or waits for an earlier report. `barycenter
    pipeline status` shows which.
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
        with suppress(OSError):  # a message about the start must not end the job
            click.echo(phase, err=True)

    if is_person:
        say("Ctrl-C stops the pipeline after the current batch")

    sys.exit(run_job(JobOptions(**options), on_phase=say))
