"""Write what the leader reads: `PipelinePublication` from the results of a batch."""

from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from pulsar_barycenter.load.reports.publication import (
    BROKER_COLUMNS,
    BUNDLE_COLUMNS,
    PipelinePublication,
    encode_publication,
)
from pulsar_barycenter.pipeline.storage.files import Storage, write_atomically
from pulsar_barycenter.pipeline.storage.layout import PUBLICATION
from pulsar_barycenter.pipeline.stream.state import BatchMemory


def make_publication(
    batch_id: int, bundles: pa.Table, brokers: pa.Table, memory: BatchMemory, *, published_at: int, oldest_report: int
) -> PipelinePublication:
    """Return the publication of a batch.

    `bundles` is BUNDLE_STATE sorted by bundle, `brokers` BROKER_DATA sorted by broker; times are epoch ms.
    `oldest_report` is the `lastUpdate` of the oldest report of this batch.
    """
    as_of = memory.reports.as_of
    return PipelinePublication(
        batch_id=batch_id,
        published_at=published_at,
        as_of=as_of,
        lag_ms=published_at - oldest_report,
        newest_lag_ms=published_at - as_of,
        last_sequence={broker: (h.incarnation, h.sequence) for broker, h in memory.ownership.holdings.items()},
        **{column: _items(bundles.column(column)) for column in ("bundle", *BUNDLE_COLUMNS)},
        **{column: _items(brokers.column(column)) for column in ("broker", *BROKER_COLUMNS)},
    )


class _Batch(msgspec.Struct, rename="camel"):
    batch_id: int


def published_batch(storage: Storage, file: Path | None = None) -> int:
    """Return the batch of the publication there, where `write_publication` writes it; -1 if there is none to read."""
    try:
        content = storage.read(PUBLICATION) if file is None else file.read_bytes()
        return msgspec.json.decode(content, type=_Batch).batch_id
    except (FileNotFoundError, msgspec.DecodeError):
        return -1


def _items(column: pa.ChunkedArray) -> list[Any]:
    # numbers by way of numpy, which is ten times quicker
    items: list[Any] = column.to_pylist() if pa.types.is_string(column.type) else column.to_numpy().tolist()
    return items


def write_publication(storage: Storage, publication: PipelinePublication, file: Path | None = None) -> None:
    """Replace the publication of the data directory, or the one in `file`, of this machine, as a whole."""
    content = encode_publication(publication)
    if file is None:
        storage.write(PUBLICATION, content)
    else:
        write_atomically(file, content)
