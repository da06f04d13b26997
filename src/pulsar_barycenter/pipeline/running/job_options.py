"""The options of the job, declared once for `pipeline.job`, spark-submit and `barycenter pipeline run`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import click

from pulsar_barycenter.pipeline.storage.files import local_folder
from pulsar_barycenter.pipeline.tables.table_log import TableFormat

_Command = TypeVar("_Command", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOptions:
    """The options of the pipeline's job. `master` is the address of Spark's master; None: the one given to
    spark-submit, or without spark-submit `local[2]` (two cores of this machine).
    """

    data: str
    master: str | None = None
    trigger_seconds: float = 1.0
    max_files: int = 500
    retention_days: int = 30
    driver_memory: str = "512m"
    once: bool = False
    fold: str = "driver"
    metrics_port: int | None = None
    ui_port: int | None = None
    publication: Path | None = None
    table_format: TableFormat | None = None
    """None: the present format of the data directory."""
    conf: Mapping[str, str] = field(default_factory=dict, repr=False)


class DataFolder(click.ParamType[str]):
    """The type of a command-line option whose value is a data directory: a folder of this machine, or an address that
    Spark can reach.
    """

    name = "folder"

    def __init__(self, *, exists: bool = False) -> None:
        """Create the type. `exists`: a folder of this machine must exist, otherwise the option is refused. Addresses
        are not checked here: Spark checks them later.
        """
        self._exists = exists

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            folder = local_folder(str(value))
            is_there = folder is not None and folder.exists()
        except ValueError as error:
            self.fail(str(error), param, ctx)
        except OSError as error:
            self.fail(f"{value}: {error.strerror}", param, ctx)
        if folder is not None and is_there and not folder.is_dir():
            self.fail(f"{folder} is a file; name the data folder of the cluster", param, ctx)
        if folder is not None and self._exists and not is_there:
            self.fail(f"there is no folder {folder}", param, ctx)
        return str(value)


class SparkSetting(click.ParamType[tuple[str, str]]):
    """The type of a command-line option whose value is a setting of Spark, in the form KEY=VALUE. A value may be
    secret, so error messages never show it.
    """

    name = "key=value"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value
        key, sign, setting = str(value).partition("=")
        if not sign or not key.startswith("spark."):
            self.fail("not KEY=VALUE with a key that begins with `spark.`", param, ctx)
        return key, setting


def with_spark_settings(command: _Command) -> _Command:
    """Add the option --conf to a click command. With it, users give settings of Spark. The command gets all of them as
    the argument `conf`, a dict.
    """
    return click.option(
        "--conf",
        multiple=True,
        type=SparkSetting(),
        callback=lambda ctx, param, value: dict(value),
        metavar="KEY=VALUE",
        help="A setting of Spark, as spark-submit takes it; repeatable.",
    )(command)


class SparkMaster(click.ParamType[str]):
    """The type of a command-line option whose value is the address of a Spark master. It is only checked that the
    address begins like one.
    """

    name = "url"

    def __init__(self, *, may_connect: bool = False) -> None:
        """Create the type. `may_connect`: also accept the address of a Spark Connect server."""
        self._kinds = ("local", "spark://", "k8s://", "yarn", *(("sc://",) if may_connect else ()))
        others = ", yarn and sc://host:15002" if may_connect else " and yarn"
        self._known = f"local[2], spark://host:7077, k8s://…{others} are"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if not str(value).startswith(self._kinds):
            self.fail(f"{value!r} is not a Spark master; {self._known}", param, ctx)
        return str(value)


def with_job_options(command: _Command) -> _Command:
    """Add an option for each field of `JobOptions` to a click command. The command gets the values as arguments with
    the names of the fields.
    """
    command = with_spark_settings(command)
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


_OPTIONS = (
    click.option(
        "--data",
        required=True,
        type=DataFolder(),
        metavar="DIR",
        help="Data folder of the cluster: a path, or an address that Spark can reach (file:, s3a:, hdfs:).",
    ),
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
        "--max-files",
        default=500,
        show_default=True,
        type=click.IntRange(1),
        help="Maximum number of report files in a batch.",
    ),
    click.option(
        "--retention-days",
        default=30,
        show_default=True,
        type=click.IntRange(0),
        help="Number of dates for which tables are kept; 0 keeps all.",
    ),
    click.option(
        "--driver-memory",
        default="512m",
        show_default=True,
        metavar="SIZE",
        help="Heap of the Java process; ignored with spark-submit, which has its own option.",
    ),
    click.option(
        "--publication",
        type=click.Path(dir_okay=False, path_type=Path),
        metavar="FILE",
        help="Publish for the leader in this file, instead of in DIR.",
    ),
    click.option(
        "--table-format",
        type=click.Choice(TableFormat, case_sensitive=False),
        help="parquet: plain Parquet files; delta: these with a log of Delta Lake, for other engines.  [default: that"
        " of DIR; parquet in a new one]",
    ),
    click.option(
        "--fold",
        type=click.Choice(["driver", "sharded"]),
        default="driver",
        show_default=True,
        help="Fold the averages of bundles in the driver, or by shard in Spark's tasks, for large batches."
        " With sharded, DIR must be a folder that all workers have under one path.",
    ),
    click.option("--once", is_flag=True, help="Fold all existing reports, then end."),
    click.option(
        "--metrics-port",
        type=click.IntRange(0, 65535),
        metavar="PORT",
        help="Answer Prometheus at http://127.0.0.1:PORT/metrics; 0: a free port, which is logged.",
    ),
    click.option(
        "--ui-port",
        type=click.IntRange(0, 65535),
        metavar="PORT",
        help="Serve Spark's web page at http://127.0.0.1:PORT; 0: a free port, which is logged.  [default: no page]",
    ),
)
