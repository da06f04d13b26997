"""A real Spark standalone cluster of this machine, from the installed pyspark: one master, workers of one core each."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyspark

from pulsar_barycenter.pipeline.spark.java import find_java, packaged_java
from pulsar_barycenter.pipeline.spark.java_cache import open_cache
from support.daemon import Daemon, daemon

SPARK_HOME = Path(pyspark.__file__).parent
SUBMIT = SPARK_HOME / "bin" / "spark-submit"

_MEMORY = "1g"
_MASTER_IS_UP = re.compile(r"Starting Spark master at (spark://\S+)")
_WORKER_IS_IN = re.compile("Successfully registered with master")
_LOG4J = """\
status = error
rootLogger.level = info
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %p %c{1}: %m%n%ex
"""


@dataclass(frozen=True, slots=True)
class SparkCluster:
    """`master` is its spark:// address; a driver of it, or spark-submit, must be started in `environment`."""

    master: str
    environment: dict[str, str]
    logs: tuple[Path, ...]

    def submit(self, *command: str, timeout_s: float = 120.0) -> subprocess.CompletedProcess[str]:
        """Run `spark-submit --master <this> <command>` to its end."""
        return subprocess.run(
            [str(SUBMIT), "--master", self.master, *command],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )


@contextmanager
def spark_cluster(folder: Path, *, workers: int = 2) -> Iterator[SparkCluster]:
    """Start a cluster on loopback, on free ports, with logs and work under `folder`; end it by process id.

    Runs on the Java that `pipeline.spark.java` finds; executors take that of their worker.
    """
    folder.mkdir(parents=True, exist_ok=True)
    environment = spark_environment(folder)
    master_log = folder / "master.log"
    with ExitStack() as running:
        master = running.enter_context(_daemon(environment, master_log, "Master", "--host", "127.0.0.1", "--port", "0"))
        address = master.wait_for(_MASTER_IS_UP)[1]
        logs = [folder / f"worker-{number}.log" for number in range(workers)]
        started = []
        for log in logs:
            options = ["--host", "127.0.0.1", "--port", "0", "--cores", "1", "--memory", _MEMORY]
            options += ["--work-dir", str(folder / log.stem), address]
            started.append(running.enter_context(_daemon(environment, log, "Worker", *options)))
        for worker in started:
            worker.wait_for(_WORKER_IS_IN)
        yield SparkCluster(address, environment, (master_log, *logs))


def spark_environment(folder: Path) -> dict[str, str]:
    (folder / "log4j2.properties").write_text(_LOG4J)
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    java = find_java(inherited, cache=open_cache(inherited).folder, packaged=packaged_java())
    return inherited | {
        "JAVA_HOME": str(java.home),
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_SCALA_VERSION": _scala_version(),  # workers build the command of an executor by it
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
    }


def _scala_version() -> str:
    jar = next((SPARK_HOME / "jars").glob("scala-library-*.jar"))
    return ".".join(jar.stem.removeprefix("scala-library-").split(".")[:2])


def _daemon(environment: dict[str, str], log: Path, kind: str, *options: str) -> AbstractContextManager[Daemon]:
    """Run a master or a worker directly: Spark's scripts leave it running."""
    settings = (log.parent / "log4j2.properties").as_uri()
    command = [f"{environment['JAVA_HOME']}/bin/java", "-cp", f"{SPARK_HOME}/jars/*", "-Xmx256m", "-XX:+UseSerialGC"]
    command += ["-XX:TieredStopAtLevel=1", f"-Dlog4j2.configurationFile={settings}"]
    command += [f"org.apache.spark.deploy.{kind.lower()}.{kind}", "--webui-port", "0", *options]
    return daemon(command, log, environment)  # a worker that is told to end ends its executors first
