"""A server of Spark Connect on loopback, from the installed pyspark, in a process of its own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pulsar_barycenter.pipeline.spark.session import INTERPRETED
from support.daemon import daemon
from support.java_start import java_options
from support.spark_cluster import SUBMIT, spark_environment

_IS_UP = re.compile(r"Spark Connect server started at: .*:(\d+)\s*$")
_SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"


@contextmanager
def connect_server(folder: Path) -> Iterator[str]:
    """Start a server with two cores on a free port; yield its `sc://` address, and end it by its process id."""
    folder.mkdir(parents=True, exist_ok=True)
    environment = spark_environment(folder)
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.adaptive.enabled": "false",
        **INTERPRETED,
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.ui.enabled": "false",
    }
    log4j = (folder / "log4j2.properties").as_uri()
    command = [str(SUBMIT), "--master", "local[2]", "--driver-memory", "1g", "--class", _SERVER]
    command += ["--driver-java-options", f"{java_options()} -XX:+UseSerialGC -Dlog4j2.configurationFile={log4j}"]
    command += [word for key, value in settings.items() for word in ("--conf", f"{key}={value}")]
    with daemon([*command, "spark-internal"], folder / "connect.log", environment) as server:
        yield f"sc://127.0.0.1:{server.wait_for(_IS_UP)[1]}"
