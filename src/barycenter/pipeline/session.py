"""The Spark session of an embedded pipeline: small, quiet, on loopback.

Only entry points (`pipeline.job`, tests, benchmarks) make a session; every other module receives one.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from barycenter.pipeline.java import default_cache, find_java, packaged_java

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
"""


def create_session(
    app_name: str,
    master: str = "local[2]",
    conf: Mapping[str, str] | None = None,
    *,
    environment: Mapping[str, str] | None = None,
) -> SparkSession:
    """Start a Spark session and return it; `conf` overrides any setting below.

    Sets JAVA_HOME, PYSPARK_PYTHON and SPARK_LOCAL_IP of this process, which Spark's launcher reads. Time zone UTC,
    ANSI mode on, no web page, a JVM of at most 768 MiB heap unless `conf` says otherwise.

    Raises:
        JavaNotFoundError: there is no Java 17 or newer; its text says how to get one.
    """
    environment = dict(os.environ if environment is None else environment)
    cache = default_cache(environment)
    os.environ["JAVA_HOME"] = str(find_java(environment, cache=cache, packaged=packaged_java()).home)
    os.environ["PYSPARK_PYTHON"] = sys.executable  # else workers run whatever python3 comes first on the PATH
    if master.startswith("local"):
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    builder = SparkSession.builder.appName(app_name).master(master)
    for key, value in {**_settings(master, cache), **(conf or {})}.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _settings(master: str, cache: Path) -> dict[str, str]:
    settings = {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.ansi.enabled": "true",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.parquet.compression.codec": "zstd",
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
    }
    if master.startswith("local"):
        settings |= {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.memory": "768m",
            "spark.driver.extraJavaOptions": f"-XX:+UseSerialGC -Dlog4j2.configurationFile={_log4j_file(cache)}",
            # Local files without a checksum file beside each.
            "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
            "spark.hadoop.fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.RawLocalFs",
        }
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
