"""The publication: what the Spark pipeline writes for the leader, columns in JSON.

`<data>/pipeline/publication/latest.json` is a whole publication. There are two groups of columns: columns about bundles
are as long as `bundle`, columns about brokers as long as `broker`; the i-th items of a group belong together.

A batch of a large cluster changes a small part of it, so the whole is replaced only now and then, and each batch writes
its changes: `latest.json.after-<batch>` has the changes to the publication of that batch. A publication is identified
by its batch and its time. A reader that has a publication looks for the change that follows it. If there is none, and
`latest.json` does not continue the reader's publication, the reader takes `latest.json`, as at its start. So a reader
may begin at any time and may sleep for any time. A reader of an earlier release, which reads `latest.json` alone, is
correct too, and at most `MOST_AGE_MS` late.

Both are replaced by an atomic rename, so a reader sees a whole file, the new or the previous one.

Names and units are those of Pulsar's BundleData (two TimeAverageMessageData) and TimeAverageBrokerData: rates in
msg/s, throughput in bytes/s.
"""

import re
from collections.abc import Generator
from typing import Any, Final, NamedTuple

import msgspec

PUBLICATION_FILE = "latest.json"
MOST_AGE_MS: Final = 30_000
"""How much older than the newest change `latest.json` may be: half of the lag above which a leader ignores a
publication.
"""
LARGEST_BYTES: Final = 2**31
"""The largest publication or change that is read, about that of ten million bundles."""
LOOK_FILE = "looked"
"""A file next to the publication; its modification time is when the pipeline last looked for new load reports."""


class PublicationId(NamedTuple):
    """The identity of a publication: the id of a batch of the pipeline (the Spark jobs that compute averages of load),
    and the time when the result of this batch was published (epoch ms). A publication is that result.
    """

    batch_id: int
    published_at: int


_HEAD: Final = re.compile(rb'\{"batchId":(\d{1,18}),"publishedAt":(\d{1,18}),(?:"after":\[(\d{1,18}),(\d{1,18})\],)?')
HEAD_BYTES: Final = 128
"""The number of bytes from the start of a document that `head_of` needs."""


def change_file(file: str, after: PublicationId) -> str:
    """Return the name of the file that has the changes since the publication `after`.

    It is in the same folder as `file`, the file with the whole publication.
    """
    return f"{file}{CHANGE}{after.batch_id:012d}"


CHANGE: Final = ".after-"


def head_of(document: bytes) -> tuple[PublicationId, PublicationId | None] | None:
    """Return the two ids at the beginning of a document: the id of the publication that the document leads to, and the
    id of the publication that it changes. The second id is None if the document has a whole publication.

    Returns None if the document does not begin with these ids.
    """
    found = _HEAD.match(document)
    if found is None:
        return None
    numbers = [int(number) for number in found.groups() if number is not None]
    return PublicationId(*numbers[:2]), PublicationId(*numbers[2:]) if numbers[2:] else None


class PipelinePublication(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The windows of every bundle and the time averages of every broker, as the pipeline computed them from all reports
    that it has included so far.

    `bundle` and `broker` are sorted and distinct. A bundle or broker is removed when no report has named it for
    `load.windows.HISTORY_GAP_MS`. So a bundle that no broker serves at the moment, and a broker that just left, are
    still included.

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
    """Broker to (incarnation, sequence) of its newest included report; the leader does not fold older ones again."""

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
        """Raise a ValueError if columns that belong together differ in length, because values would be assigned to the
        wrong names.
        """
        for key, columns in (("bundle", BUNDLE_COLUMNS), ("broker", BROKER_COLUMNS)):
            length = len(getattr(self, key))
            for column in columns:
                if len(getattr(self, column)) != length:
                    raise ValueError(
                        f"column {column} has {len(getattr(self, column))} items, but column {key} has {length}"
                    )

    @property
    def id(self) -> PublicationId:
        return PublicationId(self.batch_id, self.published_at)


class PublicationChange(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The changes that one batch made to the publication with the id `after`.

    `changed` has the id and the times of the new publication, but only those bundles, brokers and items of
    `last_sequence` that are new or changed. `is_whole` is True if the new publication was also written as a whole.
    """

    batch_id: int
    published_at: int
    after: PublicationId
    is_whole: bool
    bundles_gone: list[str] = []
    brokers_gone: list[str] = []
    changed: PipelinePublication

    def __post_init__(self) -> None:
        """Raise a ValueError if the id of `changed` differs from the id of this change: then its rows belong to another
        publication.
        """
        if self.changed.id != (self.batch_id, self.published_at):
            raise ValueError(
                f"the change to publication {self.batch_id} has rows of another publication, {self.changed.batch_id}"
            )

    @property
    def rows(self) -> int:
        """The number of bundles that this change changes or removes."""
        return len(self.changed.bundle) + len(self.bundles_gone)


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


def encode_publication(publication: PipelinePublication | PublicationChange) -> bytes:
    """Return the JSON document of a publication or a change."""
    return msgspec.json.encode(publication)


def decode_publication(document: bytes) -> Generator[None, None, PipelinePublication]:
    """Return the publication in `document`, and yield before each column, so that the caller can pause.

    Unknown fields are ignored.

    Raises:
        msgspec.DecodeError: the document is not JSON, lacks a required field, or its columns differ in length.
    """
    columns = _fields(document)
    found: dict[str, Any] = {}
    for column in msgspec.structs.fields(PipelinePublication):
        yield
        if column.encode_name in columns:
            found[column.name] = msgspec.json.decode(columns[column.encode_name], type=column.type)
        elif column.required:
            raise msgspec.ValidationError(f"the required field `{column.encode_name}` is missing")
    return _made(found)


def decode_change(document: bytes) -> Generator[None, None, PublicationChange]:
    """Return the change in `document`; yields and raises as `decode_publication` does."""
    fields = _fields(document)
    changed = fields.pop("changed", None)
    if changed is None:
        raise msgspec.ValidationError("the required field `changed` is missing")
    rows = yield from decode_publication(bytes(changed))
    rest = msgspec.convert(
        {name: msgspec.json.decode(value) for name, value in fields.items() if name in _CHANGE_FIELDS}, _ChangeHead
    )
    try:
        return PublicationChange(**msgspec.structs.asdict(rest), changed=rows)
    except ValueError as error:
        raise msgspec.ValidationError(str(error)) from error


class _ChangeHead(msgspec.Struct, rename="camel", kw_only=True):
    batch_id: int
    published_at: int
    after: PublicationId
    is_whole: bool
    bundles_gone: list[str] = []
    brokers_gone: list[str] = []


_CHANGE_FIELDS: Final = {field.encode_name for field in msgspec.structs.fields(_ChangeHead)}


def _fields(document: bytes) -> dict[str, msgspec.Raw]:
    try:
        return msgspec.json.decode(document, type=dict[str, msgspec.Raw])
    except RecursionError as error:
        raise msgspec.DecodeError("the brackets of the JSON document are nested too deeply") from error


def _made(found: dict[str, Any]) -> PipelinePublication:
    try:
        return PipelinePublication(**found)
    except ValueError as error:
        raise msgspec.ValidationError(str(error)) from error
