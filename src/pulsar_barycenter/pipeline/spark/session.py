"""Creates the pipeline's Spark session: a small embedded one on loopback, or that of spark-submit or of a server.

A master `sc://host:port` is a Spark Connect server: its session has neither a Java process nor a SparkContext here.
Code that needs one of them is in this package; the rest of the pipeline runs on both kinds of sessions.

Only entry points (`pipeline.job`, tests, benchmarks) create a session; other modules receive it as an argument.
"""

import logging
import os
import sys
import threading
from collections.abc import Callable, Hashable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial, wraps
from pathlib import Path
from typing import Any, Final, ParamSpec, TypeVar

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name PySpark users know it by

from pulsar_barycenter.pipeline.spark.java import find_java, packaged_java
from pulsar_barycenter.pipeline.spark.java_cache import open_cache
from pulsar_barycenter.pipeline.spark.java_options import Compilers, settings_of_file
from pulsar_barycenter.pipeline.spark.java_start import JavaPlan, plan_start, started_context

_Arguments = ParamSpec("_Arguments")
_Columns = TypeVar("_Columns")

_SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""A variable that spark-submit sets for the program it starts."""

LOCAL_MASTER = "local[2]"
_CONNECT: Final = "sc://"
_SERVER_TRACES: Final = "spark.sql.connect.serverStacktrace.enabled"
"""The setting whether the text of an error has the server's stack trace."""
_MOST_CORES: Final = 100_000
INTERPRETED: Final = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""Settings for sessions that do not compile plans to Java: for few rows, compiling takes longer than running."""
SPARK_ERRORS: tuple[type[Exception], ...] = (PySparkException, Py4JError)
"""The errors that Spark raises if it cannot start, or cannot execute a request."""


def create_session(
    app_name: str,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    compilers: Compilers = Compilers.BOTH,
    on_phase: Callable[[str], None] = lambda phase: None,
) -> SparkSession:
    """Start a Spark session and return it. `conf` has settings of Spark; it overrides the settings that this function
    makes: time zone UTC, ANSI mode on, no web page, and a JVM heap of at most 768 MiB.

    `master` None: the master given to spark-submit, or without spark-submit `local[2]`. Under spark-submit, Java runs
    already, and its options, its `--conf` and spark-defaults.conf override `conf` and the settings of this function.
    Otherwise this function sets JAVA_HOME, PYSPARK_PYTHON and SPARK_LOCAL_IP of this process, which Spark's launcher
    reads. If the master is on another machine, a PYSPARK_PYTHON that is already set stays.

    If there is an archive of Spark's classes, Java uses it to start faster. If there is none, but it can be created, a
    background process creates it after this process ends. If Java does not start, it is started once more without the
    archive and other options that only make the start faster, and a warning is logged. `on_phase` is called with a
    short text that says how Java is started.

    A `master` that begins with `sc://` is a Spark Connect server: no Java is started, and of the settings only those
    apply that a session may change.

    Raises:
        JavaNotFoundError: there is no Java 17 or newer; its text says how to get one.
        PySparkException, Py4JError: Spark does not start, or the server does not answer.
    """
    if master is not None and master.startswith(_CONNECT):
        return _connected_session(app_name, master, conf or {})
    environment = dict(os.environ if environment is None else environment)
    given = _given_by_spark_submit() if _SUBMITTED in environment else {}
    master = master or given.get("spark.master", LOCAL_MASTER)
    if given or not master.startswith("local"):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    else:
        os.environ["PYSPARK_PYTHON"] = sys.executable  # otherwise workers run the first python3 on the PATH
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
    starting = ThreadPoolExecutor(1)  # in the main thread PySpark handles Ctrl-C itself and continues
    try:
        session = starting.submit(start).result()
    finally:
        given_up.set()
        starting.shutdown(wait=False)  # if interrupted while Java starts, PySpark may wait forever
    _write_no_checksums(session)
    return session


def _connected_session(app_name: str, server: str, conf: Mapping[str, str]) -> SparkSession:
    session = SparkSession.builder.remote(server).appName(app_name).getOrCreate()
    for key, value in {**_SETTINGS_OF_ANSWERS, _SERVER_TRACES: "false", **conf}.items():
        if session.conf.isModifiable(key):  # the others belong to the server
            session.conf.set(key, value)
    return session


def is_connected(session: SparkSession) -> bool:
    """Return whether the session is one of Spark Connect. For such a session this process has neither a Java process
    nor a SparkContext.
    """
    return type(session).__module__.startswith("pyspark.sql.connect.")


def _session_with_java(conf: SparkConf, plan: JavaPlan, given_up: threading.Event) -> SparkSession:
    if SparkContext._gateway is None:
        started_context(conf, plan, given_up)
    return _session_of(conf)


def _session_of(conf: SparkConf) -> SparkSession:
    return SparkSession.builder.config(conf=conf).getOrCreate()


def _write_no_checksums(session: SparkSession) -> None:
    """Prevent Spark's driver from writing a checksum file next to each file that it writes to a local folder."""
    context = session.sparkContext
    files: Any = context._jvm.org.apache.hadoop.fs.FileSystem  # type: ignore[union-attr]
    files.getLocal(context._jsc.hadoopConfiguration()).setWriteChecksum(False)


def kept_columns(make: Callable[_Arguments, _Columns]) -> Callable[_Arguments, _Columns]:
    """Return a cached version of the function `make`, which returns columns of Spark: `make` is called once for the
    same arguments, as long as the same Java process runs.

    A column can be used in any session and with any DataFrame. The cache saves time, because each operation on a column
    is a call to Java: some hundred of them take longer than the work of a micro-batch. The cache is cleared when
    another Java process is used; with Spark Connect nothing is cached.
    """
    cache: tuple[object, dict[Hashable, _Columns]] = (None, {})

    @wraps(make)
    def columns(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Columns:
        nonlocal cache
        if SparkContext._gateway is not cache[0]:
            cache = (SparkContext._gateway, {})
        kept = cache[1]  # stays the same while another thread clears the cache
        key = (args, tuple(kwargs.items()))
        if key not in kept:
            kept[key] = make(*args, **kwargs)
        return kept[key]

    return columns


def tasks_of(session: SparkSession) -> Callable[[], tuple[int, int]]:
    """Return a function that returns two numbers: how many tasks have finished, and how many there are, in the stages
    that Spark runs at the time of the call.
    """
    if is_connected(session):
        return _tasks_of_server(session)
    tracker = session.sparkContext.statusTracker()

    def tasks() -> tuple[int, int]:
        stages = [stage for number in tracker.getActiveStageIds() if (stage := tracker.getStageInfo(number))]
        return sum(stage.numCompletedTasks for stage in stages), sum(stage.numTasks for stage in stages)

    return tasks


def _tasks_of_server(session: SparkSession) -> Callable[[], tuple[int, int]]:
    newest = (0, 0)

    def note(stages: Iterable[Any], **_: Any) -> None:
        nonlocal newest
        known = list(stages or ())
        newest = sum(stage.num_completed_tasks for stage in known), sum(stage.num_tasks for stage in known)

    session.registerProgressHandler(note)  # type: ignore[arg-type]
    return lambda: newest


def parallelism(session: SparkSession) -> int:
    """Return how many tasks Spark runs at the same time, by its configuration. Runs a small Spark job to find out."""
    places = session.range(_MOST_CORES).select(F.spark_partition_id().alias("place"))
    return int(places.agg(F.max("place")).collect()[0][0]) + 1


def master_of(session: SparkSession) -> str:
    """Return the address of the session's Spark master, for example `local[2]`. For a session of Spark Connect, it is
    the master of the server. An empty text if Spark does not say.
    """
    return session.conf.get("spark.master", "") or ""


def log_nothing(session: SparkSession) -> None:
    """Stop Spark from logging errors. The caller gets them as exceptions, so they would be shown twice."""
    if not is_connected(session):
        session.sparkContext.setLogLevel("OFF")
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)


def page_settings(port: int) -> dict[str, str]:
    """Return the Spark settings of a session that serves Spark's web page at the port `port`; 0: at a free port."""
    return {
        "spark.ui.enabled": "true",
        "spark.ui.port": str(port),
        "spark.ui.killEnabled": "false",
        "spark.port.maxRetries": "0",
    }


def page_refusal(master: str | None, environment: Mapping[str, str]) -> str | None:
    """Return why Spark's web page would be open to other machines. Return None if only this machine could read it.

    Spark serves the page at the address SPARK_LOCAL_IP. Executors reach the driver at the same address, so executors on
    other machines need an address that is open to other machines.
    """
    address = environment.get("SPARK_LOCAL_IP", "")
    if _SUBMITTED in environment and not address.startswith("127."):
        return (
            "Java was started by spark-submit, and its page is open to other machines unless SPARK_LOCAL_IP=127.0.0.1"
        )
    if not is_loopback(master or LOCAL_MASTER):
        return f"executors of {master} are on other machines, so Spark's page would be open to these machines"
    return None


def page_of(session: SparkSession) -> str | None:
    """Return the URL of Spark's web page; None if the session serves none."""
    return session.sparkContext.uiWebUrl


def end_java(session: SparkSession, *, within_s: float) -> None:
    """Stop the session and its Java process, and wait until the process has ended.

    Raises:
        subprocess.TimeoutExpired: the process has not ended after `within_s` seconds.
    """
    gateway: Any = session.sparkContext._gateway
    session.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()  # this makes Java end
    gateway.proc.wait(within_s)


def is_loopback(master: str | None) -> bool:
    """Return whether Spark runs only on this machine: the address of the master begins with `local`, or it is a
    standalone master at a loopback address. None (no address): return False.
    """
    return master is not None and master.startswith(("local", "spark://127.", "spark://localhost:"))


def _given_by_spark_submit() -> dict[str, str]:
    """Return the Spark settings that spark-submit gave: those of the Java process that started this process."""
    SparkContext._ensure_initialized()  # otherwise SparkConf does not read from that process
    given = dict(SparkConf().getAll())
    if given.get("spark.app.name") == Path(sys.argv[0]).name:  # the default of spark-submit
        del given["spark.app.name"]
    return given


_SETTINGS_OF_ANSWERS: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}
"""Settings on which the results of queries and the written tables depend."""


def _settings(master: str) -> dict[str, str]:
    settings = {
        **_SETTINGS_OF_ANSWERS,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "768m",
        # The driver lists hundreds of report files faster than a separate job does.
        "spark.sql.sources.parallelPartitionDiscovery.threshold": "100000",
        # Otherwise each Column operation walks Python's stack, which is half the time of building a small plan.
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
        # Local files without checksum files, for clients of Hadoop's newer interface.
        "spark.hadoop.fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.RawLocalFs",
    }
    if is_loopback(master):
        settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    if master.startswith("local"):
        settings["spark.sql.shuffle.partitions"] = "2"
    return settings
