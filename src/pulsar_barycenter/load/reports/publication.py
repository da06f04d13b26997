"""The publication: the document that the Spark pipeline writes for the leader, columns in JSON.

The pipeline replaces `<data>/pipeline/publication/latest.json` by an atomic rename after every batch, so a reader sees
a whole publication, the new or the previous one. There are two groups of columns: columns about bundles are as long as
`bundle`, columns about brokers as long as `broker`; the i-th items of a group belong together.

Names and units are those of Pulsar's BundleData (two TimeAverageMessageData) and TimeAverageBrokerData: rates in
msg/s, throughput in bytes/s.
"""

from collections.abc import Generator
from typing import Any

import msgspec

PUBLICATION_FILE = "latest.json"
LOOK_FILE = "looked"
"""Beside the publication; its modification time is when the pipeline last looked for new load reports."""


class PipelinePublication(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The windows of every bundle and the time averages of every broker, as of the newest included report.

    `bundle` and `broker` are sorted and distinct. Bundles and brokers are listed until nothing was reported of them for
    `load.windows.HISTORY_GAP_MS`, so a bundle that no broker serves at the moment, and a broker that just left, are
    included.

    Times are epoch ms. `as_of` is the `lastUpdate` of the newest included report, by the clock of the reporting broker;
    the other times are by the pipeline's clock.
    """

    batch_id: int
    published_at: int
    as_of: int
    lag_ms: int = 0
    """`published_at` minus the time of the oldest report of this batch: how long the slowest report waited."""
    newest_lag_ms: int = 0
    """`published_at` minus the time of the newest report of this batch."""
    last_sequence: dict[str, tuple[str, int]] = {}
    """Broker to (incarnation, sequence) of its newest included report; the leader's own fold can skip up to it."""

    bundle: list[str] = []
    topics: list[int] = []
    short_num_samples: list[int] = []
    short_msg_rate_in: list[float] = []
    short_msg_rate_out: list[float] = []
    short_msg_throughput_in: list[float] = []
    short_msg_throughput_out: list[float] = []
    long_num_samples: list[int] = []
    long_msg_rate_in: list[float] = []
    long_msg_rate_out: list[float] = []
    long_msg_throughput_in: list[float] = []
    long_msg_throughput_out: list[float] = []

    broker: list[str] = []
    short_term_msg_throughput_in: list[float] = []
    short_term_msg_throughput_out: list[float] = []
    short_term_msg_rate_in: list[float] = []
    short_term_msg_rate_out: list[float] = []
    long_term_msg_throughput_in: list[float] = []
    long_term_msg_throughput_out: list[float] = []
    long_term_msg_rate_in: list[float] = []
    long_term_msg_rate_out: list[float] = []

    def __post_init__(self) -> None:
        """Refuse columns of unequal length, which would assign values to the wrong names."""
        for key, columns in (("bundle", BUNDLE_COLUMNS), ("broker", BROKER_COLUMNS)):
            length = len(getattr(self, key))
            for column in columns:
                if len(getattr(self, column)) != length:
                    raise ValueError(f"column {column} has {len(getattr(self, column))} items, {key} has {length}")


BUNDLE_COLUMNS = (
    "topics",
    *(
        f"{window}_{figure}"
        for window in ("short", "long")
        for figure in ("num_samples", "msg_rate_in", "msg_rate_out", "msg_throughput_in", "msg_throughput_out")
    ),
)
"""The columns of `PipelinePublication` that are as long as its `bundle`."""

BROKER_COLUMNS = tuple(
    f"{window}_term_{figure}"
    for window in ("short", "long")
    for figure in ("msg_throughput_in", "msg_throughput_out", "msg_rate_in", "msg_rate_out")
)
"""The columns of `PipelinePublication` that are as long as its `broker`."""


def encode_publication(publication: PipelinePublication) -> bytes:
    """Return the JSON document of `publication`."""
    return msgspec.json.encode(publication)


def decode_publication(document: bytes) -> Generator[None, None, PipelinePublication]:
    """Return the publication in `document`, with a pause before each column; unknown fields are ignored.

    Raises:
        msgspec.DecodeError: the document is not JSON, lacks a required field, or its columns differ in length.
    """
    columns = msgspec.json.decode(document, type=dict[str, msgspec.Raw])
    found: dict[str, Any] = {}
    for column in msgspec.structs.fields(PipelinePublication):
        yield
        if column.encode_name in columns:
            found[column.name] = msgspec.json.decode(columns[column.encode_name], type=column.type)
        elif column.required:
            raise msgspec.ValidationError(f"the required field `{column.encode_name}` is missing")
    try:
        return PipelinePublication(**found)
    except ValueError as error:
        raise msgspec.ValidationError(str(error)) from error
