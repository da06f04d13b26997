"""The Spark session of the pipeline: embedded, small, quiet and on loopback; or that of spark-submit.

Only entry points (`pipeline.job`, tests, benchmarks) make a session; every other module receives one.
"""

import os
import sys
import threading
from collections.abc import Callable, Hashable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial, wraps
from pathlib import Path
from typing import Any, Final, ParamSpec, TypeVar

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pulsar_barycenter.pipeline.spark.java import find_java, packaged_java
from pulsar_barycenter.pipeline.spark.java_cache import open_cache
from pulsar_barycenter.pipeline.spark.java_options import Compilers, settings_of_file
from pulsar_barycenter.pipeline.spark.java_start import JavaPlan, plan_start, started_context

_Arguments = ParamSpec("_Arguments")
_Columns = TypeVar("_Columns")

_SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""Set by spark-submit for the program it starts."""

LOCAL_MASTER = "local[2]"
INTERPRETED: Final = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""Settings of a session that compiles no plan to Java, which takes longer than running it on some rows."""
SPARK_ERRORS: tuple[type[Exception], ...] = (PySparkException, Py4JError)
"""What Spark raises when it cannot start, or cannot do what it was asked."""


def create_session(
    app_name: str,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    compilers: Compilers = Compilers.BOTH,
    on_phase: Callable[[str], None] = lambda phase: None,
) -> SparkSession:
    """Start a Spark session and return it; `conf` overrides any setting below.

    `master` None: the one that spark-submit was given, else `local[2]`. Under spark-submit Java runs already, and what
    its options, its `--conf` and spark-defaults.conf say overrides both `conf` and the settings below. Otherwise
    JAVA_HOME, PYSPARK_PYTHON and SPARK_LOCAL_IP of this process, which Spark's launcher reads, are set here; a
    PYSPARK_PYTHON of the user's stands if the master is another machine's. Time zone UTC, ANSI mode on, no web page, a
    JVM of at most 768 MiB heap unless `conf` says otherwise.

    Java maps the archive of Spark's classes if there is one; where there could be and is not, it is made in the
    background when this process ends. If Java does not start so, it is started once more without these options, with
    a warning. `on_phase` is called with a few words on how Java is started.

    Raises:
        JavaNotFoundError: there is no Java 17 or newer; its text says how to get one.
        PySparkException, Py4JError: Spark does not start.
    """
    environment = dict(os.environ if environment is None else environment)
    given = _given_by_spark_submit() if _SUBMITTED in environment else {}
    master = master or given.get("spark.master", LOCAL_MASTER)
    if given or not master.startswith("local"):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    else:
        os.environ["PYSPARK_PYTHON"] = sys.executable  # else workers run whatever python3 comes first on the PATH
    settings = {key: value for key, value in {**_settings(master), **(conf or {})}.items() if key not in given}
    spark_conf = SparkConf().setAppName(given.get("spark.app.name", app_name)).setMaster(master)
    for key, value in settings.items():
        spark_conf.set(key, value)
    given_up = threading.Event()
    if given:
        start = partial(_session_of, spark_conf)
    else:
        cache = open_cache(environment)
        java = find_java(environment, cache=cache.folder, packaged=packaged_java())
        os.environ["JAVA_HOME"] = str(java.home)
        if is_loopback(master):
            os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
        plan = plan_start(java, cache, environment, settings_of_file(environment) | settings, compilers)
        on_phase(plan.told)
        start = partial(_session_with_java, spark_conf, plan, given_up)
    starting = ThreadPoolExecutor(1)  # in the main thread PySpark takes Ctrl-C for itself, and goes on
    try:
        session = starting.submit(start).result()
    finally:
        given_up.set()
        starting.shutdown(wait=False)  # interrupted while Java starts, PySpark may wait for ever
    _write_no_checksums(session)
    return session


def _session_with_java(conf: SparkConf, plan: JavaPlan, given_up: threading.Event) -> SparkSession:
    if SparkContext._gateway is None:
        started_context(conf, plan, given_up)
    return _session_of(conf)


def _session_of(conf: SparkConf) -> SparkSession:
    return SparkSession.builder.config(conf=conf).getOrCreate()


def _write_no_checksums(session: SparkSession) -> None:
    """Let the driver write local files without checksum files, by the class that Hadoop's other clients insist on."""
    context = session.sparkContext
    files: Any = context._jvm.org.apache.hadoop.fs.FileSystem  # type: ignore[union-attr]
    files.getLocal(context._jsc.hadoopConfiguration()).setWriteChecksum(False)


def kept_columns(make: Callable[_Arguments, _Columns]) -> Callable[_Arguments, _Columns]:
    """Return `make`, which makes columns, so that it is called once for the same arguments while Java lives.

    Columns belong to no session and no frame, and each of their operations is a call of Java: some hundred of them cost
    a micro-batch more than its work. The Java process that they are in is the key; with Spark Connect there is none.
    """
    java: object = None
    kept: dict[Hashable, _Columns] = {}

    @wraps(make)
    def columns(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Columns:
        nonlocal java, kept
        if SparkContext._gateway is not java:
            java, kept = SparkContext._gateway, {}
        key = (args, tuple(kwargs.items()))
        if key not in kept:
            kept[key] = make(*args, **kwargs)
        return kept[key]

    return columns


def tasks_of(session: SparkSession) -> Callable[[], tuple[int, int]]:
    """Return what tells how many tasks of the stages that Spark is at are done, and how many there are."""
    tracker = session.sparkContext.statusTracker()

    def tasks() -> tuple[int, int]:
        stages = [stage for number in tracker.getActiveStageIds() if (stage := tracker.getStageInfo(number))]
        return sum(stage.numCompletedTasks for stage in stages), sum(stage.numTasks for stage in stages)

    return tasks


def is_loopback(master: str | None) -> bool:
    """Say whether the master is this process, or a standalone master of this machine by a loopback address."""
    return master is not None and master.startswith(("local", "spark://127.", "spark://localhost:"))


def _given_by_spark_submit() -> dict[str, str]:
    """The settings of the Java process that started this one."""
    SparkContext._ensure_initialized()  # else SparkConf knows nothing of that process
    given = dict(SparkConf().getAll())
    if given.get("spark.app.name") == Path(sys.argv[0]).name:  # spark-submit's own choice
        del given["spark.app.name"]
    return given


def _settings(master: str) -> dict[str, str]:
    settings = {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.ansi.enabled": "true",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "768m",
        "spark.sql.parquet.compression.codec": "zstd",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        # Listing hundreds of report files is quicker in the driver than as a job of its own.
        "spark.sql.sources.parallelPartitionDiscovery.threshold": "100000",
        # Without it each Column operation walks Python's stack: half the time of building a small plan.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        "spark.sql.streaming.minBatchesToRetain": "20",
        "spark.sql.streaming.numRecentProgressUpdates": "5",
        "spark.hadoop.mapreduce.fileoutputcommitter.algorithm.version": "2",
        "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
        # A driver that runs for months must not remember its jobs.
        "spark.ui.retainedJobs": "20",
        "spark.ui.retainedStages": "20",
        "spark.ui.retainedTasks": "100",
        "spark.sql.ui.retainedExecutions": "5",
        # Local files without a checksum file beside each, here for what uses Hadoop's newer interface.
        "spark.hadoop.fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.RawLocalFs",
    }
    if is_loopback(master):
        settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    if master.startswith("local"):
        settings["spark.sql.shuffle.partitions"] = "2"
    return settings
