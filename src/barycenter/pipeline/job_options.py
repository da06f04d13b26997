"""The options of the job, said once for `barycenter.pipeline.job`, spark-submit and `barycenter pipeline run`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click

from barycenter.pipeline.addresses import NotLocalError, local_folder

_Command = TypeVar("_Command", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOptions:
    """What a person chooses. `master` None: that of spark-submit, else two cores of this machine."""

    data: Path
    master: str | None = None
    trigger_seconds: float = 1.0
    max_files: int = 500
    retention_days: int = 30
    driver_memory: str = "512m"
    once: bool = False
    metrics_port: int | None = None


class LocalFolder(click.ParamType[Path]):
    """A folder of this machine, as a path or a `file:` address."""

    name = "folder"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        try:
            folder = local_folder(str(value))
        except NotLocalError as error:
            self.fail(str(error), param, ctx)
        if folder.exists() and not folder.is_dir():
            self.fail(f"{folder} is a file; name the data folder of the cluster", param, ctx)
        return folder


class SparkMaster(click.ParamType[str]):
    """The address of a Spark master, checked as far as its kind."""

    name = "url"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if not str(value).startswith(("local", "spark://", "k8s://", "yarn")):
            self.fail(f"{value!r} is no Spark master; local[2], spark://host:7077, k8s://… and yarn are", param, ctx)
        return str(value)


def with_job_options(command: _Command) -> _Command:
    """Give a click command the options of `JobOptions`, by the names of its fields."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


_OPTIONS = (
    click.option("--data", required=True, type=LocalFolder(), metavar="DIR", help="Data folder of the cluster; local."),
    click.option(
        "--master", type=SparkMaster(), metavar="URL", help="Spark master.  [default: spark-submit's, else local[2]]"
    ),
    click.option(
        "--trigger-seconds",
        default=1.0,
        show_default=True,
        type=click.FloatRange(0),
        help="Seconds between the starts of two batches.",
    ),
    click.option(
        "--max-files", default=500, show_default=True, type=click.IntRange(1), help="Reports a batch takes at most."
    ),
    click.option(
        "--retention-days",
        default=30,
        show_default=True,
        type=click.IntRange(0),
        help="Dates of tables kept; 0 keeps all.",
    ),
    click.option(
        "--driver-memory",
        default="512m",
        show_default=True,
        metavar="SIZE",
        help="Heap of the Java process; with spark-submit its own option counts.",
    ),
    click.option("--once", is_flag=True, help="Fold every report that is there, then end."),
    click.option(
        "--metrics-port",
        type=click.IntRange(1, 65535),
        metavar="PORT",
        help="Answer Prometheus at http://127.0.0.1:PORT/metrics.",
    ),
)
