"""A real S3 API on loopback (S3Proxy in memory: conditional writes, multipart uploads), and Hadoop's access to it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow.fs as pafs

from support.daemon import daemon
from support.maven import Dependency, class_path, hadoop_version, java_command

_SOURCE = Path(__file__).parent / "java" / "S3Server.java"
_SERVING = re.compile(r"^serving (http://\S+)")
_SERVER = Dependency(
    "org.gaul:s3proxy",
    "4.1.0",
    # the clouds that it can stand before, its metrics, and what it logs with
    without=(
        "com.azure:*",
        "com.google.cloud:*",
        "com.github.openstack4j.core:*",
        "com.github.openstack4j.core.connectors:*",
        "com.google.protobuf:*",
        "io.grpc:*",
        "ch.qos.logback:*",
    ),
)
_AWS_SDK = "2.35.4"
"""The one that hadoop-aws 3.5.0 is built with."""
_READER = Dependency(
    "software.amazon.s3.analyticsaccelerator:analyticsaccelerator-s3", "1.3.1", without=("software.amazon.awssdk:*",)
)
_SDK_MODULES = ("s3", "s3-transfer-manager", "sts", "apache-client", "netty-nio-client")
_IN_SPARK = ("io.netty:*", "org.slf4j:*", "commons-codec:*")

_BUCKET = "barycenter"
_KEY, _SECRET, _REGION = "of-this-test-only", "opens-nothing-else", "us-east-1"


@dataclass(frozen=True, slots=True)
class S3Server:
    """`endpoint` is its http:// address, `address` that of its one bucket, `s3a://NAME`."""

    endpoint: str
    address: str

    @property
    def conf(self) -> dict[str, str]:
        """The settings by which a Spark session reads and writes there, from its start."""
        return {
            "spark.jars": ",".join(hadoop_aws_jars()),  # where `spark.jars.packages` puts them, too
            "spark.hadoop.fs.s3a.endpoint": self.endpoint,
            "spark.hadoop.fs.s3a.endpoint.region": _REGION,
            "spark.hadoop.fs.s3a.path.style.access": "true",
            "spark.hadoop.fs.s3a.access.key": _KEY,
            "spark.hadoop.fs.s3a.secret.key": _SECRET,
        }

    @property
    def environment(self) -> dict[str, str]:
        """The environment that Arrow's S3 client reads."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": _KEY,
            "AWS_SECRET_ACCESS_KEY": _SECRET,
            "AWS_REGION": _REGION,
        }

    def arrow(self) -> pafs.FileSystem:
        """Arrow's client of it."""
        return pafs.S3FileSystem(
            access_key=_KEY,
            secret_key=_SECRET,
            region=_REGION,
            endpoint_override=self.endpoint,
            force_virtual_addressing=False,
        )


def hadoop_aws_jars() -> list[str]:
    """S3A and the modules of the AWS SDK that it needs, for Spark's class path: a fortieth of the SDK's `bundle`.

    Raises:
        PeerUnavailableError: there is no Maven or no network.
    """
    modules = (Dependency(f"software.amazon.awssdk:{name}", _AWS_SDK, without=_IN_SPARK) for name in _SDK_MODULES)
    return class_path(Dependency("org.apache.hadoop:hadoop-aws", hadoop_version(), without=("*:*",)), *modules, _READER)


@contextmanager
def s3_server(log: Path) -> Iterator[S3Server]:
    """Start it in a process of its own, with an empty bucket.

    Raises:
        PeerUnavailableError: there is no Maven, no JDK or no network.
    """
    command = java_command(_SOURCE, class_path(_SERVER), "-Xmx256m")
    with daemon([*command, _KEY, _SECRET, _BUCKET], log) as output:
        yield S3Server(output.wait_for(_SERVING)[1], f"s3a://{_BUCKET}")
