"""What the pipeline published, as the leader reads it.

The publication is one file that is replaced by renaming, so it is read in place, without a thread: a look costs one
`stat`, and only a new file is read. It may list a hundred thousand bundles, so others go on while it is decoded.
"""

import asyncio
import os
from pathlib import Path
from typing import Protocol

import msgspec
import structlog

from barycenter.load.reports.load_report import (
    LONG_SAMPLES,
    SHORT_SAMPLES,
    BundleData,
    LocalBrokerData,
    TimeAverageBrokerData,
    TimeAverageMessageData,
)
from barycenter.load.reports.publication import PUBLICATION_FILE, PipelinePublication, decode_publication

log = structlog.get_logger(__name__)


class PipelineFeed(Protocol):
    @property
    def is_expected(self) -> bool:
        """Whether there should be a pipeline, so that its silence is worth telling."""
        ...

    def latest(self) -> PipelinePublication | None:
        """Return the publication that was read last, the same object until there is a newer one; None: there is
        none."""
        ...

    async def read(self) -> None:
        """Read the newest publication, unless that was done before."""
        ...


class NoPipeline:
    """A cluster without a pipeline, as in a simulation: the leader goes by its own fold."""

    is_expected = False

    def latest(self) -> PipelinePublication | None:
        return None

    async def read(self) -> None:
        pass


class FilePipeline:
    """Reads `latest.json` in a folder. A file that cannot be read or understood leaves the one before in place."""

    is_expected = True

    def __init__(self, folder: Path) -> None:
        self._file = folder / PUBLICATION_FILE
        self._identity: tuple[int, int, int] | None = None
        self._publication: PipelinePublication | None = None
        self._reading = asyncio.Lock()

    def latest(self) -> PipelinePublication | None:
        return self._publication

    async def read(self) -> None:
        async with self._reading:
            try:
                stat = os.stat(self._file)
            except OSError:
                return
            identity = (stat.st_ino, stat.st_mtime_ns, stat.st_size)
            if identity == self._identity:
                return
            try:
                self._publication = await _decoded(self._file.read_bytes())
            except (OSError, msgspec.DecodeError) as error:
                log.warning("pipeline_publication_unreadable", file=str(self._file), reason=str(error))
            self._identity = identity


async def _decoded(document: bytes) -> PipelinePublication:
    columns = decode_publication(document)
    while True:
        try:
            next(columns)
        except StopIteration as end:
            publication: PipelinePublication = end.value
            return publication
        await asyncio.sleep(0)


def includes(publication: PipelinePublication, broker: str, report: LocalBrokerData) -> bool:
    """Tell whether `report` of `broker` was folded into `publication`."""
    incarnation, sequence = publication.last_sequence.get(broker, ("", -1))
    return incarnation == report.incarnation and sequence >= report.sequence


def is_exactly(publication: PipelinePublication, broker: str, report: LocalBrokerData) -> bool:
    """Tell whether `report` is the newest of `broker` that `publication` knows."""
    return publication.last_sequence.get(broker) == (report.incarnation, report.sequence)


def published_bundles(publication: PipelinePublication, rows: slice = slice(None)) -> dict[str, BundleData]:
    """Return the windows of the published bundles in these `rows`."""
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
        name: BundleData(short_term_data=each_short, long_term_data=each_long, topics=topics)
        for name, each_short, each_long, topics in zip(p.bundle[rows], short, long, p.topics[rows], strict=True)
    }


def published_averages(publication: PipelinePublication) -> dict[str, TimeAverageBrokerData]:
    """Return the time averages of every published broker."""
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
    for name, *figures in zip(p.broker, *columns, strict=True):
        found[name] = TimeAverageBrokerData(**dict(zip(TimeAverageBrokerData.__struct_fields__, figures, strict=True)))
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
            msg_throughput_in=each_throughput_in,
            msg_throughput_out=each_throughput_out,
            msg_rate_in=each_rate_in,
            msg_rate_out=each_rate_out,
        )
        for count, each_throughput_in, each_throughput_out, each_rate_in, each_rate_out in zip(
            counts, throughput_in, throughput_out, rate_in, rate_out, strict=True
        )
    ]
