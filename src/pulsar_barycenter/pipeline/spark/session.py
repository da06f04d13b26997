"""The Spark session of the pipeline: embedded, small, quiet and on loopback; or that of spark-submit, or of a server.

A master `sc://host:port` is a server of Spark Connect: its session has neither a Java process nor a SparkContext here.
What needs one of them is in this package, and the rest of the pipeline runs on either kind.

Only entry points (`pipeline.job`, tests, benchmarks) make a session; every other module receives one.
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
"""Set by spark-submit for the program it starts."""

LOCAL_MASTER = "local[2]"
_CONNECT: Final = "sc://"
_SERVER_TRACES: Final = "spark.sql.connect.serverStacktrace.enabled"
"""Whether the text of an error has the stack of the server."""
_MOST_CORES: Final = 100_000
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

    A `master` that begins with `sc://` is a server of Spark Connect: no Java is started, and only those settings apply
    that a session may change.

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


def _connected_session(app_name: str, server: str, conf: Mapping[str, str]) -> SparkSession:
    session = SparkSession.builder.remote(server).appName(app_name).getOrCreate()
    for key, value in {**_SETTINGS_OF_ANSWERS, _SERVER_TRACES: "false", **conf}.items():
        if session.conf.isModifiable(key):  # others are the server's own
            session.conf.set(key, value)
    return session


def is_connected(session: SparkSession) -> bool:
    """Return whether the session is one of Spark Connect, without a Java process or a SparkContext here."""
    return type(session).__module__.startswith("pyspark.sql.connect.")


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
    """Return how many tasks Spark runs at once, as it is configured to count them: a job of its own finds out."""
    places = session.range(_MOST_CORES).select(F.spark_partition_id().alias("place"))
    return int(places.agg(F.max("place")).collect()[0][0]) + 1


def master_of(session: SparkSession) -> str:
    """Return the address of the session's master; of a session of Spark Connect, that of the server's."""
    return session.conf.get("spark.master", "") or ""


def log_nothing(session: SparkSession) -> None:
    """Keep Spark from logging errors that a caller gets as exceptions."""
    if not is_connected(session):
        session.sparkContext.setLogLevel("OFF")
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)


def page_settings(port: int) -> dict[str, str]:
    """Return the settings of a session that serves Spark's own web page at a port of this machine; 0 is a free port."""
    return {
        "spark.ui.enabled": "true",
        "spark.ui.port": str(port),
        "spark.ui.killEnabled": "false",
        "spark.port.maxRetries": "0",
    }


def page_refusal(master: str | None, environment: Mapping[str, str]) -> str | None:
    """Return why Spark's web page would be open to other machines; None if it is served on loopback alone.

    Spark binds its page where SPARK_LOCAL_IP says, which also is the driver's address to executors.
    """
    address = environment.get("SPARK_LOCAL_IP", "")
    if _SUBMITTED in environment and not address.startswith("127."):
        return "spark-submit has started Java, and its page is open to other machines unless SPARK_LOCAL_IP=127.0.0.1"
    if not is_loopback(master or LOCAL_MASTER):
        return f"executors of {master} are on other machines, and so Spark's page would be open to them"
    return None


def page_of(session: SparkSession) -> str | None:
    """Return the URL of Spark's web page, None if the session serves none."""
    return session.sparkContext.uiWebUrl


def end_java(session: SparkSession, *, within_s: float) -> None:
    """Stop the session and the Java process that was started for it, and wait for the end of the process."""
    gateway: Any = session.sparkContext._gateway
    session.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()  # by which Java ends
    gateway.proc.wait(within_s)


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


_SETTINGS_OF_ANSWERS: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}
"""What answers and written tables depend on."""


def _settings(master: str) -> dict[str, str]:
    settings = {
        **_SETTINGS_OF_ANSWERS,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "768m",
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
