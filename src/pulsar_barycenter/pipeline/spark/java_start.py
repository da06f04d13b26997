"""Starts Java for Spark: with an archive of Spark's classes if possible, and without it if Java fails to start.

PySpark starts Java as a child process. This process forwards Java's standard error. Java inherits the standard output
of this process, so a parent that reads this output also sees when Java has ended.
"""

import atexit
import logging
import os
import shlex
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway

from pulsar_barycenter.pipeline.spark.class_archive import SWITCH, ClassArchive, archive_of, hindrance
from pulsar_barycenter.pipeline.spark.java import Java
from pulsar_barycenter.pipeline.spark.java_cache import JavaCache
from pulsar_barycenter.pipeline.spark.java_options import (
    DEFAULT_OPTIONS,
    Compilers,
    JavaOptions,
    given_options,
    own_options,
)
from pulsar_barycenter.whole_files.appearing import write_whole

log = logging.getLogger(__name__)

_MAKER: Final = "pulsar_barycenter.pipeline.running.archive_making"
"""The program that makes an archive. It is in a later package, because it uses the code that it makes faster."""
_LAST_WORDS_S: Final = 5.0
"""The time to wait for the last output of a Java that did not start."""
_GOING_S: Final = 1.0
"""The time to wait for the end of a Java that no longer answers."""

_LOG4J: Final = """\
status = error
rootLogger.level = error
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{yyyy-MM-dd'T'HH:mm:ss.SSS}{UTC}Z %p %c{1}: %m%n%ex
logger.native.name = org.apache.hadoop.util.NativeCodeLoader
logger.native.level = error
# The same level as the root: otherwise Spark prints to standard error that it sets its own level.
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class JavaPlan:
    """How Java will be started; `told` describes this in a short text for the user.

    `used` is the archive of classes with which Java starts. `missing` is the archive that is to be created after this
    process ends. At most one of the two is not None. `environment` has the environment variables of this process before
    they were changed for Java.
    """

    options: JavaOptions
    given: str
    """The user's own `spark.driver.defaultJavaOptions`, which are added after `options`."""
    used: ClassArchive | None
    missing: ClassArchive | None
    told: str
    environment: Mapping[str, str]


def plan_start(
    java: Java,
    cache: JavaCache,
    environment: Mapping[str, str],
    settings: Mapping[str, str],
    compilers: Compilers,
) -> JavaPlan:
    """Decide how `java` will be started for a Spark session with these `settings`. Write Java's log settings to the
    cache.
    """
    archive = archive_of(java, cache)
    why_not = "switched off" if environment.get(SWITCH) == "off" else hindrance(java, cache, environment)
    is_used = why_not is None and archive.is_there()
    is_wanted = why_not is None and not is_used and environment.get(SWITCH) != "use"
    is_missing = is_wanted and not archive.has_failed()
    options = own_options(
        _log_settings(cache),
        compilers,
        archive.options() if is_used else (),
        given_options(environment, settings),
    )
    return JavaPlan(
        options=options,
        given=settings.get(DEFAULT_OPTIONS, ""),
        used=archive if is_used else None,
        missing=archive if is_missing else None,
        told=_told(java, why_not, is_used=is_used, is_missing=is_missing),
        environment=environment,
    )


def started_context(conf: SparkConf, plan: JavaPlan, given_up: threading.Event) -> SparkContext:
    """Start Java and Spark. If Java ends at once, start it again without the options that only make the start faster
    (`plan.options.quick`), and log a warning.

    `given_up` is set by the caller when it no longer waits, for example after an interrupt. Then Java is not started
    again.

    Raises:
        PySparkException, Py4JError: Java or Spark does not start.
    """
    needed, quick = plan.options.needed, plan.options.quick
    try:
        context = _context(conf, (*needed, *quick), plan.given)
    except _JavaEndedError as ended:
        if not quick or given_up.is_set():
            raise ended.error from None
        log.warning("Java ended when started with the options %s; starting it without them", " ".join(quick))
        try:
            context = _context(conf, needed, plan.given)
        except _JavaEndedError as again:
            raise again.error from None
        if plan.used is not None:
            plan.used.remove()
            plan.used.note_failure()
        return context
    if plan.used is not None:
        plan.used.note_use()
    if plan.missing is not None and not given_up.is_set():
        atexit.register(_make_in_background, plan.environment)
    return context


class _JavaEndedError(Exception):
    """The Java process ended during its start. `error` is the error that PySpark raised because of this."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


def _context(conf: SparkConf, options: tuple[str, ...], given: str) -> SparkContext:
    conf.set(DEFAULT_OPTIONS, " ".join((*map(shlex.quote, options), given)).strip())
    gateway = _launched_java(conf)
    try:
        return SparkContext(conf=conf, gateway=gateway)
    except Py4JJavaError:
        raise  # Java runs, and refused
    except (Py4JError, OSError) as error:
        try:
            gateway.proc.wait(_GOING_S)
        except subprocess.TimeoutExpired:
            raise error from None
        SparkContext._gateway = SparkContext._jvm = None  # otherwise the next context would use the ended process
        raise _JavaEndedError(error) from error


def _launched_java(conf: SparkConf) -> Any:
    """Start Java, and return PySpark's connection to it. Until Java ends, this process copies Java's standard error to
    its own.
    """
    reading, writing = os.pipe()
    passing_on = threading.Thread(target=_pass_on, args=(reading,), name="Java's standard error", daemon=True)
    passing_on.start()
    try:
        with open(writing, "wb") as of_java:
            return launch_gateway(conf, {"stderr": of_java})  # type: ignore[no-untyped-call]
    except PySparkException as error:
        passing_on.join(_LAST_WORDS_S)
        raise _JavaEndedError(error) from error


def _pass_on(reading: int) -> None:
    with open(reading, "rb", buffering=0) as said, suppress(OSError):
        while part := said.read(65536):
            os.write(2, part)


def _make_in_background(environment: Mapping[str, str]) -> None:
    """Start the program that creates the missing archive of classes, with low priority, and do not wait for it. It
    continues to run after this process has ended.
    """
    with suppress(OSError, RuntimeError):
        subprocess.Popen(  # noqa: S603 - this Python
            [sys.executable, "-m", _MAKER],
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )


def _told(java: Java, why_not: str | None, *, is_used: bool, is_missing: bool) -> str:
    if is_used:
        return f"starting Spark on Java {java.version} with the archive of its classes"
    text = f"starting Spark on Java {java.version} without an archive of its classes"
    if why_not is not None:
        return f"{text}: {why_not}"
    if is_missing:
        return f"{text}; a background process makes it after this process ends"
    return f"{text}; `barycenter pipeline prepare` makes it, or says why that fails"


def _log_settings(cache: JavaCache) -> str:
    """Write Java's log settings to a file of the cache; by them, Java logs only errors, to standard error. Return the
    URL of the file.
    """
    file = cache.folder / "log4j2.properties"
    if not file.exists() or file.read_text() != _LOG4J:
        write_whole(file, _LOG4J.encode())
    return file.absolute().as_uri()
