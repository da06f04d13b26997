"""Places out of this machine's file system where a data directory may lie, as tests have them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from support.hdfs_cluster import hdfs_cluster
from support.s3_server import s3_server


@dataclass(frozen=True, slots=True)
class Store:
    """`address` names an empty place; `conf` is what Spark is given to reach it, `environment` what Arrow reads."""

    address: str
    conf: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def options(self) -> list[str]:
        """`conf` as words of a command line."""
        return [word for key, value in self.conf.items() for word in ("--conf", f"{key}={value}")]


@contextmanager
def hdfs(folder: Path) -> Iterator[Store]:
    with hdfs_cluster(folder) as address:
        yield Store(address)


@contextmanager
def s3(folder: Path) -> Iterator[Store]:
    with s3_server(folder / "s3.log") as server:
        yield Store(server.address, server.conf, server.environment)


STORES: dict[str, Callable[[Path], AbstractContextManager[Store]]] = {"hdfs": hdfs, "s3": s3}
