"""Reads the cluster again and again, serves the pages meanwhile, and reports what was seen, until the process ends."""

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from pulsar_barycenter.admin.client import NewClient
from pulsar_barycenter.admin.client_conf import ClientConf
from pulsar_barycenter.dashboard.timeline import BriefDecision
from pulsar_barycenter.terminal.errors import in_words
from pulsar_barycenter.watch.answers import Answers
from pulsar_barycenter.watch.recorded_status import RecordedStatus, recorded_status
from pulsar_barycenter.watch.server import WatchServer
from pulsar_barycenter.watch.sources.data_folder import DataFolder
from pulsar_barycenter.watch.sources.error import WatchError
from pulsar_barycenter.watch.sources.live import live_cluster
from pulsar_barycenter.watch.sources.source import Source
from pulsar_barycenter.watch.watched_cluster import WatchedCluster

_HOUR_MS: Final = 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The options of `barycenter watch`: either `urls`, the web addresses of brokers of a running cluster, or `data`, a
    folder with the recording of a cluster. Of a recording, only the reports of its last `span_ms` ms are read.

    The cluster or folder is read every `interval_s` seconds. The run ends after `rounds` readings (0: no limit), or
    earlier after a signal. `port` is a port of 127.0.0.1; 0: any free port. `changes` are settings (key=value) that
    override those of the cluster.
    """

    urls: tuple[str, ...] = ()
    data: Path | None = None
    interval_s: float = 60.0
    span_ms: int = 86_400_000
    port: int = 0
    rounds: int = 0
    changes: tuple[str, ...] = ()
    service_url: str = ""


class Watching(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """What `barycenter watch` prints at its begin: the address of its pages, the source that it reads, and what it
    found there.
    """

    url: str
    source: str
    cluster: str
    brokers: int
    bundles: int
    as_of: int
    strategy: str


Tell: TypeAlias = Callable[[Watching | BriefDecision | str], None]
"""Receives the begin of a run, each move and round, and sentences about what could not be read."""


async def watch(new_client: NewClient, conf: ClientConf, wanted: Wanted, tell: Tell) -> None:
    """Read and show the cluster until SIGINT or SIGTERM, or for the number of readings in `wanted`.

    If the first reading fails, the run ends. If a later reading fails, its error is passed to `tell` as text, and the
    next reading follows.

    Raises:
        WatchError: the source cannot be opened, or the first reading failed.
        ConfigError, WrongWordError: a change of the settings is not allowed.
        OSError: the port cannot be used, or the first reading of the folder failed.
    """
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await watch_until(stop, new_client, conf, wanted, tell)


async def watch_until(stop: asyncio.Event, new_client: NewClient, conf: ClientConf, wanted: Wanted, tell: Tell) -> None:
    """Do the same as `watch`, but end when `stop` is set instead of at a signal."""
    cluster, lock = WatchedCluster(wanted.changes), asyncio.Lock()
    async with opened(new_client, conf, wanted) as source:
        await take_new(source, cluster, lock)
        server = WatchServer(Answers(cluster, source), lock, now_ms)
        url = await server.start(wanted.port)
        try:
            tell(_begin(url, source, cluster))
            await _repeat(stop, source, cluster, lock, wanted, tell)
        finally:
            await server.close()


async def take_new(source: Source, cluster: WatchedCluster, lock: asyncio.Lock) -> None:
    """Read the new looks from the source, and add them to `cluster`. `lock` is held only while a look is added, so that
    no request is answered meanwhile; reading may take long and is done without the lock.

    Raises:
        WatchError: see `Source.read`.
    """
    for look in await source.read():
        async with lock:
            await asyncio.to_thread(cluster.take, look)


async def status_of_recording(data: Path) -> RecordedStatus:
    """Return the status of the cluster that is recorded in a folder, as of its newest report. Only the reports of the
    hour before that report are read.

    Raises:
        WatchError: the folder cannot be shown.
        OSError: the folder cannot be read.
    """
    cluster, folder = WatchedCluster(), DataFolder(data, span_ms=_HOUR_MS)
    await take_new(folder, cluster, asyncio.Lock())
    return recorded_status(cluster, folder.name, folder.problems())


@asynccontextmanager
async def opened(new_client: NewClient, conf: ClientConf, wanted: Wanted) -> AsyncIterator[Source]:
    """Open the source of load that `wanted` names: the brokers, or a folder.

    Raises:
        WatchError: no broker answers, the brokers belong to several clusters, or the folder has no recorded load.
    """
    if wanted.data is not None:
        yield DataFolder(wanted.data, span_ms=wanted.span_ms)
        return
    async with live_cluster(
        new_client, conf, wanted.urls, interval_s=wanted.interval_s, service_url=wanted.service_url
    ) as source:
        yield source


def _begin(url: str, source: Source, cluster: WatchedCluster) -> Watching:
    return Watching(
        url=url,
        source=source.name,
        cluster=cluster.beside.cluster,
        brokers=len(cluster.live),
        bundles=cluster.bundles(),
        as_of=cluster.at_ms,
        strategy=cluster.strategy,
    )


async def _repeat(
    stop: asyncio.Event, source: Source, cluster: WatchedCluster, lock: asyncio.Lock, wanted: Wanted, tell: Tell
) -> None:
    loop = asyncio.get_running_loop()
    due, number, told = loop.time(), 1, 0
    problem: tuple[str, ...] = ()
    while True:
        for decision in [one for one in cluster.decisions if one.number > told]:
            tell(decision)
        told = cluster.number
        if source.problems() != problem:
            problem = source.problems()
            for sentence in problem:
                tell(sentence)
        if number == wanted.rounds:
            return
        due = max(due + wanted.interval_s, loop.time())
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), due - loop.time())
        if stop.is_set():
            return
        number += 1
        try:
            await take_new(source, cluster, lock)
        except (WatchError, OSError) as error:
            tell(f"{in_words(error)}; trying again")


def now_ms() -> int:
    """Return the time of this machine, epoch ms."""
    return time.time_ns() // 1_000_000
