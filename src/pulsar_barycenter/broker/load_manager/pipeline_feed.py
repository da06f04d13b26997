"""Reads what the pipeline published, and decides whether the leader uses it.

Publications are files that are replaced by renaming (`load.reports.publication`), so they are read in place, without a
thread: a check costs a `stat` of each file that may exist, and only new files are read. The time to apply a change
depends on the size of the change only. A whole publication may list a million bundles, so it is decoded in steps
between which other tasks run.
"""

import asyncio
import logging
import os
import stat
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection, Generator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple, Protocol, TypeVar, runtime_checkable

import msgspec
import structlog

from pulsar_barycenter.broker.load_manager.context import LoadManagerContext
from pulsar_barycenter.load.reports.load_report import (
    LONG_SAMPLES,
    SHORT_SAMPLES,
    BundleData,
    TimeAverageBrokerData,
    TimeAverageMessageData,
)
from pulsar_barycenter.load.reports.publication import (
    HEAD_BYTES,
    LARGEST_BYTES,
    LOOK_FILE,
    PUBLICATION_FILE,
    PipelinePublication,
    PublicationChange,
    PublicationId,
    change_file,
    decode_change,
    decode_publication,
    head_of,
)

log = structlog.get_logger(__name__)

Decoded = TypeVar("Decoded")

_ROWS_IN_ONE_STEP: Final = 2_000
_KNOWN_WHOLES: Final = 8
"""The number of whole publications for which a reader remembers that the changes which it applied include them."""


class ReportName(NamedTuple):
    """Identifies a load report of a broker: the run of the broker's process, and the report's number in this run."""

    incarnation: str
    sequence: int


class NamedReport(Protocol):
    @property
    def incarnation(self) -> str: ...

    @property
    def sequence(self) -> int: ...


class PipelineFeed(Protocol):
    @property
    def is_expected(self) -> bool:
        """Whether a pipeline (the program that publishes averages computed from load reports) should be running. If
        True and it publishes nothing, a warning is logged.
        """
        ...

    def latest(self) -> "Published | None":
        """Return the publication that `read` read last; None if none was read. Until `read` finds a newer one, this is
        the same object, so callers may compare by identity.
        """
        ...

    def last_look_ms(self) -> int | None:
        """Return the time at which the pipeline last checked for new load reports (ms since 1970), as the last call of
        `read` found it; None if it is not known.
        """
        ...

    async def read(self) -> None:
        """Read the newest publication of the pipeline, if it has not been read yet."""
        ...


class NoPipeline:
    """Implements `PipelineFeed` for a cluster without a pipeline, which never publishes anything. So the leader uses
    the averages that it computes itself.
    """

    is_expected = False

    def latest(self) -> "Published | None":
        return None

    def last_look_ms(self) -> int | None:
        return None

    async def read(self) -> None:
        pass


@dataclass(frozen=True, slots=True)
class Published:
    """A publication of the pipeline (the program that publishes averages computed from load reports), with its columns
    as maps by broker or bundle.

    `id` identifies the publication. `last_sequence` has, by broker, the name (incarnation and number) of the newest
    report that is included. `bundles` is the exception: it is always the map of the newest publication that was read,
    even in an older object, because it is changed in place; copying it would take too long.
    """

    id: PublicationId
    last_sequence: Mapping[str, tuple[str, int]]
    bundles: Mapping[str, BundleData]
    averages: Mapping[str, TimeAverageBrokerData]


def published(publication: PipelinePublication) -> Published:
    """Return a whole publication as maps by broker and bundle."""
    bundles, averages = published_bundles(publication), published_averages(publication)
    return Published(publication.id, publication.last_sequence, bundles, averages)


class _UnreadableError(Exception):
    """A file that the pipeline (the separate program that publishes averages) wrote cannot be read now; the next
    attempt may succeed.
    """


class _RefusedError(Exception):
    """A file that the pipeline (the separate program that publishes averages) wrote is too large, or does not contain a
    publication. It is not read again.
    """


class FilePipeline:
    """Reads the averages that the pipeline, a separate program, publishes in a folder: a whole publication is the file
    `latest.json`, and the files of changes follow it.

    If a file cannot be read or decoded, the previous publication stays; the next `read` tries again if it could not be
    read, but not if it could not be decoded. After a damaged change no later change is applied; the next `latest.json`
    is then read as a whole.
    """

    is_expected = True

    def __init__(self, folder: Path) -> None:
        self._file = folder / PUBLICATION_FILE
        self._look_file = folder / LOOK_FILE
        self._last_look_ms: int | None = None
        self._identity: tuple[int, int, int] | None = None
        self._refused: tuple[PublicationId, tuple[int, int, int]] | None = None
        """The last change that was refused: the publication that it should follow, and the identity of its file. The
        file is not read again.
        """
        self._published: Published | None = None
        self._bundles: dict[str, BundleData] = {}
        self._wholes: deque[PublicationId] = deque(maxlen=_KNOWN_WHOLES)
        self._reading = asyncio.Lock()

    def latest(self) -> Published | None:
        return self._published

    def last_look_ms(self) -> int | None:
        return self._last_look_ms

    async def read(self) -> None:
        async with self._reading:
            try:
                self._last_look_ms = os.stat(self._look_file).st_mtime_ns // 1_000_000
            except FileNotFoundError:  # of an older pipeline, or one that never ran or was removed
                self._last_look_ms = None
            except OSError:
                pass
            await self._follow()
            if await self._read_whole():
                await self._follow()

    async def _read_whole(self) -> bool:
        """Read `latest.json`, unless it was read before, or is a publication that the changes applied so far already
        include. Return whether it was read.
        """
        identity = _identity_of(self._file)
        if identity is None or identity == self._identity:
            return False
        self._identity = identity
        try:
            if self._wholes and _head(self._file) in self._wholes:
                return False
            publication = await _read(self._file, decode_publication)
        except _UnreadableError as error:
            self._identity = None
            _warn(self._file, error)
            return False
        except _RefusedError as error:
            _warn(self._file, error)
            return False
        bundles: dict[str, BundleData] = {}
        async for some in _bundles_of(publication):
            bundles |= some
        self._bundles = bundles
        self._wholes.append(publication.id)
        self._published = Published(
            publication.id, publication.last_sequence, self._bundles, published_averages(publication)
        )
        return True

    async def _follow(self) -> None:
        """Apply, one after the other, the files of changes that follow the publication that was read last. Stop at the
        first that is missing or cannot be used.
        """
        while (before := self._published) is not None:
            file = self._file.with_name(change_file(self._file.name, before.id))
            identity = _identity_of(file)
            if identity is None or (before.id, identity) == self._refused:
                return
            try:
                change = await _read(file, decode_change)
            except _UnreadableError as error:
                _warn(file, error)
                return
            except _RefusedError as error:
                self._refused = before.id, identity
                _warn(file, error)
                return
            if change.after != before.id or change.changed.batch_id <= before.id.batch_id:  # left over from another run
                self._refused = before.id, identity
                return
            await self._apply(before, change)

    async def _apply(self, before: Published, change: PublicationChange) -> None:
        rows = change.changed
        bundles: dict[str, BundleData] = {}
        async for some in _bundles_of(rows):
            bundles |= some
        averages = {**before.averages, **published_averages(rows)}
        last_sequence = {**before.last_sequence, **rows.last_sequence}
        for broker in change.brokers_gone:
            averages.pop(broker, None)
            last_sequence.pop(broker, None)
        self._bundles |= bundles
        for bundle in change.bundles_gone:
            self._bundles.pop(bundle, None)
        if change.is_whole:
            self._wholes.append(rows.id)
        self._published = Published(rows.id, last_sequence, self._bundles, averages)


def _warn(file: Path, error: Exception) -> None:
    log.warning("pipeline_publication_unreadable", file=str(file), reason=str(error))


def _identity_of(file: Path) -> tuple[int, int, int] | None:
    """Return a value that changes whenever the content of the file is replaced; None if there is no file, or something
    that is not a regular file.

    (Opening a FIFO would block until there is a writer.)
    """
    try:
        found = os.stat(file)
    except OSError:
        return None
    return (found.st_ino, found.st_mtime_ns, found.st_size) if stat.S_ISREG(found.st_mode) else None


def _head(file: Path) -> PublicationId | None:
    try:
        with file.open("rb") as stream:
            head = head_of(stream.read(HEAD_BYTES))
    except OSError as error:
        raise _UnreadableError(str(error)) from error
    return None if head is None else head[0]


async def _read(file: Path, decode: Callable[[bytes], Generator[None, None, Decoded]]) -> Decoded:
    """Return the decoded content of a file. Other tasks run while it is decoded."""
    try:
        with file.open("rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            if size > LARGEST_BYTES:
                raise _RefusedError(f"the file has {size:,} bytes, but at most {LARGEST_BYTES:,} are allowed")
            parts = decode(stream.read())
        while True:
            try:
                next(parts)
            except StopIteration as end:
                found: Decoded = end.value
                return found
            await asyncio.sleep(0)
    except OSError as error:
        raise _UnreadableError(str(error)) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _RefusedError(str(error)) from error


async def _bundles_of(publication: PipelinePublication) -> AsyncIterator[dict[str, BundleData]]:
    """Decode the published bundles in steps; yield the averages of some bundles at a time. Other tasks run between two
    steps.
    """
    for start in range(0, len(publication.bundle), _ROWS_IN_ONE_STEP):
        yield published_bundles(publication, slice(start, start + _ROWS_IN_ONE_STEP))
        await asyncio.sleep(0)


@dataclass(frozen=True, slots=True)
class PipelineState:
    """Whether decisions use the averages that the pipeline published (`in_use`), and how current these are. `lag_ms`:
    for how many ms this broker has known the oldest report that the pipeline has not published; 0 if there is none.
    `is_late`: this is longer than `loadBalancerPipelineMaxLagSeconds`.

    If `is_published` is false, the pipeline has not published anything; perhaps it does not run. While the load is
    steady, there is nothing to publish, so publications do not show whether the pipeline runs. `silent_ms` shows it:
    the time since the pipeline last checked for new reports, None if it is not known. `is_silent`: this is longer than
    `loadBalancerPipelineMaxLagSeconds`.
    """

    in_use: bool
    lag_ms: int
    is_late: bool
    silent_ms: int | None = None
    is_silent: bool = False
    is_published: bool = True


@runtime_checkable
class HasPipelineState(Protocol):
    """A load manager whose decisions may use the averages that the pipeline, a separate program, publishes."""

    def pipeline_state(self) -> PipelineState: ...


class UsedPublication:
    """The newest publication of the pipeline (the program that publishes averages computed from load reports), and the
    decision whether it is used.

    The pipeline is late if this broker knows a report that the pipeline has not published for longer than
    `loadBalancerPipelineMaxLagSeconds`. A publication is used while the pipeline is not late, even if the publication
    is old.
    """

    def __init__(self, context: LoadManagerContext, feed: PipelineFeed) -> None:
        self._context = context
        self._feed = feed
        self._received: dict[str, tuple[NamedReport, int]] = {}
        self._logged_late = False
        self._logged_silent = False

    # ---- reports that it should have ----

    def received(self, broker: str, report: NamedReport, at_ms: int) -> None:
        """Record the name of the newest load report of a broker, and that this broker received it at `at_ms` (ms since
        1970).
        """
        self._received[broker] = (report, at_ms)

    def last_received(self, broker: str) -> NamedReport | None:
        found = self._received.get(broker)
        return None if found is None else found[0]

    def retain(self, brokers: Collection[str]) -> None:
        """Forget the load reports that were recorded for brokers that are not in `brokers`."""
        for broker in [name for name in self._received if name not in brokers]:
            del self._received[broker]

    # ---- what it published ----

    def state(self) -> PipelineState:
        """Return how current the pipeline is now: whether it has published the recorded reports, by the publication
        that was read last. This does not read a newer publication.
        """
        publication = self._feed.latest()
        now_ms = self._context.env.clock.now_ms()
        waiting = [
            at_ms
            for broker, (report, at_ms) in self._received.items()
            if publication is None or not includes(publication, broker, report)
        ]
        lag_ms = max(0, now_ms - min(waiting)) if waiting else 0
        limit_ms = self._context.config.current.load_balancer_pipeline_max_lag_seconds * 1000
        is_late = self._feed.is_expected and lag_ms > limit_ms
        last_look_ms = self._feed.last_look_ms()
        silent_ms = None if last_look_ms is None else max(0, now_ms - last_look_ms)
        return PipelineState(
            publication is not None and not is_late,
            lag_ms,
            is_late,
            silent_ms=silent_ms,
            is_silent=silent_ms is not None and silent_ms > limit_ms,
            is_published=publication is not None,
        )

    def published(self) -> Published | None:
        """Return the publication that decisions use now; None if they do not use the pipeline."""
        return self._feed.latest() if self.state().in_use else None

    async def read(self) -> None:
        """Read the newest publication of the pipeline."""
        await self._feed.read()

    async def judge(self, *, decides_with: str) -> PipelineState:
        """Read the newest publication, and return the pipeline's state. On the leader, also log when the pipeline
        becomes late or is late no more, and when it stops or begins again to check for new reports.

        `decides_with` is a text for the log: what decisions use while the pipeline is late.
        """
        await self._feed.read()
        state = self.state()
        if not self._context.is_leader():
            return state
        if state.is_late and not self._logged_late:
            self._logged_late = True
            log.warning("pipeline_late", lag_s=state.lag_ms / 1000, decides_with=decides_with)
        elif state.in_use and self._logged_late:
            self._logged_late = False
            log.info("pipeline_back", lag_s=state.lag_ms / 1000)
        if state.is_silent != self._logged_silent:
            self._logged_silent = state.is_silent
            event = "pipeline_silent" if state.is_silent else "pipeline_looks_again"
            log.log(logging.WARNING if state.is_silent else logging.INFO, event, silent_s=(state.silent_ms or 0) / 1000)
        return state


def includes(publication: Published, broker: str, report: NamedReport) -> bool:
    """Return whether `publication` was made with this load report of `broker`, or with a later one of the same run of
    the broker (incarnation).
    """
    incarnation, sequence = publication.last_sequence.get(broker, ("", -1))
    return incarnation == report.incarnation and sequence >= report.sequence


def is_exactly(publication: Published, broker: str, report: NamedReport) -> bool:
    """Return whether this load report is the newest one of `broker` in `publication`."""
    return publication.last_sequence.get(broker) == (report.incarnation, report.sequence)


def published_bundles(publication: PipelinePublication, rows: slice = slice(None)) -> dict[str, BundleData]:
    """Return the averages of the published bundles in `rows` of the publication."""
    p = publication
    short = _windows(
        SHORT_SAMPLES,
        p.short_num_samples[rows],
        p.short_msg_throughput_in[rows],
        p.short_msg_throughput_out[rows],
        p.short_msg_rate_in[rows],
        p.short_msg_rate_out[rows],
    )
    long = _windows(
        LONG_SAMPLES,
        p.long_num_samples[rows],
        p.long_msg_throughput_in[rows],
        p.long_msg_throughput_out[rows],
        p.long_msg_rate_in[rows],
        p.long_msg_rate_out[rows],
    )
    return {
        name: BundleData(short_term_data=short_window, long_term_data=long_window, topics=topics)
        for name, short_window, long_window, topics in zip(p.bundle[rows], short, long, p.topics[rows], strict=True)
    }


def published_averages(publication: PipelinePublication) -> dict[str, TimeAverageBrokerData]:
    """Return the time averages of every broker that is in the publication."""
    p = publication
    columns = (
        p.short_term_msg_throughput_in,
        p.short_term_msg_throughput_out,
        p.short_term_msg_rate_in,
        p.short_term_msg_rate_out,
        p.long_term_msg_throughput_in,
        p.long_term_msg_throughput_out,
        p.long_term_msg_rate_in,
        p.long_term_msg_rate_out,
    )
    found = {}
    for name, *values in zip(p.broker, *columns, strict=True):
        found[name] = TimeAverageBrokerData(**dict(zip(TimeAverageBrokerData.__struct_fields__, values, strict=True)))
    return found


def _windows(
    max_samples: int,
    counts: list[int],
    throughput_in: list[float],
    throughput_out: list[float],
    rate_in: list[float],
    rate_out: list[float],
) -> list[TimeAverageMessageData]:
    return [
        TimeAverageMessageData(
            max_samples=max_samples,
            num_samples=count,
            msg_throughput_in=bytes_in,
            msg_throughput_out=bytes_out,
            msg_rate_in=msgs_in,
            msg_rate_out=msgs_out,
        )
        for count, bytes_in, bytes_out, msgs_in, msgs_out in zip(
            counts, throughput_in, throughput_out, rate_in, rate_out, strict=True
        )
    ]
