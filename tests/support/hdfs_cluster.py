"""A real HDFS on loopback: one name node and one data node, of the version whose client the installed pyspark has."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.daemon import daemon
from support.maven import SPARK_JARS, Dependency, class_path, hadoop_version, java_command

_SOURCE = Path(__file__).parent / "java" / "HdfsServer.java"
_SERVING = re.compile(r"^serving (hdfs://\S+)")


@contextmanager
def hdfs_cluster(folder: Path) -> Iterator[str]:
    """Start it in a process of its own, with its blocks under `folder`, and yield its address `hdfs://127.0.0.1:PORT`.

    Raises:
        PeerUnavailableError: there is no Maven, no JDK or no network.
    """
    folder.mkdir(parents=True, exist_ok=True)
    # What else it needs is in Spark's jars.
    jars = class_path(Dependency("org.apache.hadoop:hadoop-client-minicluster", hadoop_version(), without=("*:*",)))
    command = java_command(_SOURCE, [*jars, f"{SPARK_JARS}/*"], "-Xmx256m")
    with daemon([*command, str(folder / "dfs")], folder / "hdfs.log") as output:
        yield output.wait_for(_SERVING)[1]
