"""The Spark session of the pipeline: embedded, small, quiet and on loopback; or that of spark-submit.

Only entry points (`pipeline.job`, tests, benchmarks) make a session; every other module receives one.
"""

import os
import sys
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from pulsar_barycenter.pipeline.spark.java import default_cache, find_java, packaged_java

_SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""Set by spark-submit for the program it starts."""

_LOG4J = """\
status = error
rootLogger.level = {level}
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{{yyyy-MM-dd'T'HH:mm:ss.SSS}}{{UTC}}Z %p %c{{1}}: %m%n%ex
logger.native.name = org.apache.hadoop.util.NativeCodeLoader
logger.native.level = error
# Of the same level as the root: Spark would say on standard error that it sets one of its own.
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = {level}
"""


LOCAL_MASTER = "local[2]"
_LAST_WORDS_S: Final = 5.0
"""For how long the last words of a Java that did not start are waited for."""
SPARK_ERRORS: tuple[type[Exception], ...] = (PySparkException, Py4JError)
"""What Spark raises when it cannot start, or cannot do what it was asked."""


def create_session(
    app_name: str,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    *,
    environment: Mapping[str, str] | None = None,
) -> SparkSession:
    """Start a Spark session and return it; `conf` overrides any setting below.

    `master` None: the one that spark-submit was given, else `local[2]`. Under spark-submit Java runs already, and what
    its options, its `--conf` and spark-defaults.conf say overrides both `conf` and the settings below. Otherwise
    JAVA_HOME, PYSPARK_PYTHON and SPARK_LOCAL_IP of this process, which Spark's launcher reads, are set here; a
    PYSPARK_PYTHON of the user's stands if the master is another machine's. Time zone UTC, ANSI mode on, no web page, a
    JVM of at most 768 MiB heap unless `conf` says otherwise.

    Raises:
        JavaNotFoundError: there is no Java 17 or newer; its text says how to get one.
    """
    environment = dict(os.environ if environment is None else environment)
    cache = default_cache(environment)
    given = _given_by_spark_submit() if _SUBMITTED in environment else {}
    master = master or given.get("spark.master", LOCAL_MASTER)
    if given or not master.startswith("local"):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    else:
        os.environ["PYSPARK_PYTHON"] = sys.executable  # else workers run whatever python3 comes first on the PATH
    if not given:
        os.environ["JAVA_HOME"] = str(find_java(environment, cache=cache, packaged=packaged_java()).home)
        if is_loopback(master):
            os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    spark_conf = SparkConf().setAppName(given.get("spark.app.name", app_name)).setMaster(master)
    for key, value in {**_settings(master, cache), **(conf or {})}.items():
        if key not in given:
            spark_conf.set(key, value)
    starting = ThreadPoolExecutor(1)  # in the main thread PySpark takes Ctrl-C for itself, and goes on
    try:
        session = starting.submit(_started, spark_conf, is_submitted=bool(given)).result()
    finally:
        starting.shutdown(wait=False)  # interrupted while Java starts, PySpark may wait for ever
    _write_no_checksums(session)
    return session


def _started(conf: SparkConf, *, is_submitted: bool) -> SparkSession:
    if SparkContext._gateway is None and not is_submitted:
        SparkContext(conf=conf, gateway=_launched_java(conf))
    return SparkSession.builder.config(conf=conf).getOrCreate()


def _launched_java(conf: SparkConf) -> Any:
    """Start Java. What it says on standard error this process passes on, as long as it says anything itself."""
    reading, writing = os.pipe()
    passing_on = threading.Thread(target=_pass_on, args=(reading,), name="Java's standard error", daemon=True)
    passing_on.start()
    try:
        with open(writing, "wb") as of_java:
            return launch_gateway(conf, {"stderr": of_java})  # type: ignore[no-untyped-call]
    except PySparkException:
        passing_on.join(_LAST_WORDS_S)
        raise


def _pass_on(reading: int) -> None:
    with open(reading, "rb", buffering=0) as said, suppress(OSError):
        while part := said.read(65536):
            os.write(2, part)


def _write_no_checksums(session: SparkSession) -> None:
    """Let the driver write local files without checksum files, by the class that Hadoop's other clients insist on."""
    context = session.sparkContext
    files: Any = context._jvm.org.apache.hadoop.fs.FileSystem  # type: ignore[union-attr]
    files.getLocal(context._jsc.hadoopConfiguration()).setWriteChecksum(False)


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


def _settings(master: str, cache: Path) -> dict[str, str]:
    settings = {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.ansi.enabled": "true",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "768m",
        "spark.driver.extraJavaOptions": f"-XX:+UseSerialGC -Dlog4j2.configurationFile={_log4j_file(cache)}",
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


def _log4j_file(cache: Path) -> str:
    """Write the JVM's log settings under `cache` and return them as a URL: warnings and worse, to standard error."""
    cache.mkdir(parents=True, exist_ok=True)
    file = cache / "log4j2.properties"
    text = _LOG4J.format(level="error")
    if not file.exists() or file.read_text() != text:
        temporary = file.with_name(f".{file.name}-{os.getpid()}")
        temporary.write_text(text)
        temporary.replace(file)
    return file.absolute().as_uri()
