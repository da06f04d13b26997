"""Writes the averages for the leader: whole publications, and changes of them (see `load.reports.publication`)."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa

from pulsar_barycenter.load.reports.publication import (
    BROKER_COLUMNS,
    BUNDLE_COLUMNS,
    CHANGE,
    HEAD_BYTES,
    MOST_AGE_MS,
    PipelinePublication,
    PublicationChange,
    PublicationId,
    change_file,
    encode_publication,
    head_of,
)
from pulsar_barycenter.pipeline.storage.files import LocalStorage, Storage
from pulsar_barycenter.pipeline.storage.layout import PUBLICATION

_MOST_CHANGES: Final = 500
"""The maximum number of changes after a whole publication."""


@dataclass(frozen=True, slots=True)
class PublicationTimes:
    """The id of the batch of a publication, and its times in epoch ms.

    `published_at` is when the batch was published, `as_of` the time of the newest report so far, `oldest_report` that
    of the oldest report of the batch.
    """

    batch_id: int
    published_at: int
    as_of: int
    oldest_report: int

    @property
    def lag_ms(self) -> int:
        return self.published_at - self.oldest_report

    @property
    def newest_lag_ms(self) -> int:
        return self.published_at - self.as_of


def make_publication(
    times: PublicationTimes, bundles: pa.Table, brokers: pa.Table, last_sequence: dict[str, tuple[str, int]]
) -> PipelinePublication:
    """Return the publication of these bundles and brokers. The rows of a change have the same form.

    `bundles` has the columns BUNDLE_STATE, sorted by bundle; `brokers` has BROKER_DATA, sorted by broker.
    `last_sequence` has the incarnation and the sequence of each broker's newest report.
    """
    return PipelinePublication(
        batch_id=times.batch_id,
        published_at=times.published_at,
        as_of=times.as_of,
        lag_ms=times.lag_ms,
        newest_lag_ms=times.newest_lag_ms,
        last_sequence=last_sequence,
        **{column: _items(bundles.column(column)) for column in ("bundle", *BUNDLE_COLUMNS)},
        **{column: _items(brokers.column(column)) for column in ("broker", *BROKER_COLUMNS)},
    )


def _items(column: pa.ChunkedArray) -> list[Any]:
    # numbers through NumPy, which is ten times faster
    items: list[Any] = column.to_pylist() if pa.types.is_string(column.type) else column.to_numpy().tolist()
    return items


@dataclass(frozen=True, slots=True)
class Changed:
    """What a batch changed: `rows` has the new and changed rows, `bundles_gone` and `brokers_gone` have the names of
    bundles and brokers that were removed.
    """

    rows: PipelinePublication
    bundles_gone: list[str]
    brokers_gone: list[str]


class Publisher:
    """Writes the publications of one data directory, one after another. A publication is complete ("whole"), or has
    only what its batch changed; readers combine a whole publication with the changes after it.

    Only a whole publication is written for the first batch of the process, and if most bundles changed. For every other
    batch a change is written. After the change, a whole publication is written as well in these cases: the changes
    since the last whole one have more rows than the state has bundles; there are `_MOST_CHANGES` of them; or the last
    whole publication is `MOST_AGE_MS` old.

    A change is deleted when the second whole publication after it is written, so that slow readers can still read it.
    """

    def __init__(self, storage: Storage, file: Path | None, *, whole_below: int) -> None:
        """Store the arguments.

        `file` is the file of this machine to which averages are published; None: the file in the data directory. If
        there are fewer than `whole_below` bundles, each publication is whole.
        """
        self._storage: Storage = storage if file is None else LocalStorage(file.absolute().parent)
        self._path = PUBLICATION if file is None else file.name
        self._whole_below = whole_below
        self._last: PublicationId | None = None
        self._whole_at = 0
        self._changed = 0
        self._changes: list[str] = []
        self._changes_before: list[str] = []
        self._may_have_changes = True

    def newest_batch(self) -> int:
        """Return the id of the newest batch whose averages a reader can get from the publication and the changes after
        it; -1 if there is no publication, or it cannot be decoded.
        """
        try:
            document = msgspec.json.decode(self._storage.read(self._path), type=_Head)
        except (FileNotFoundError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return -1
        found = PublicationId(document.batch_id, document.published_at)
        while True:
            try:
                head = head_of(self._storage.read(change_file(self._path, found), length=HEAD_BYTES))
            except FileNotFoundError:
                return found.batch_id
            if head is None or head[1] != found or head[0].batch_id <= found.batch_id:
                return found.batch_id
            found = head[0]

    def publish_whole(self, publication: PipelinePublication) -> None:
        """Write a whole publication, and delete all files of changes. Readers load the whole publication, even if they
        have the previous one.
        """
        self._last = None
        self._storage.write(self._path, encode_publication(publication))
        if self._may_have_changes:
            self._delete_changes()
        self._begin(publication)
        self._changes_before = []

    def publish(self, known: int, changed: Callable[[], Changed], whole: Callable[[], PipelinePublication]) -> None:
        """Publish the result of a batch. `known` is the number of bundles in the state.

        `changed` returns what the batch changed, `whole` the whole publication. Each is called only if its result is
        needed.
        """
        after, self._last = self._last, None  # None until all is written: after an error a whole publication follows
        if after is None or known < self._whole_below:
            self.publish_whole(whole())
            return
        change = changed()
        rows = change.rows
        count = len(rows.bundle) + len(change.bundles_gone)
        is_again = rows.batch_id <= after.batch_id  # file names of changes have the batch id, so it must grow
        if is_again or 2 * count > known:
            self.publish_whole(whole())
            return
        is_whole = (
            self._changed + count > known
            or len(self._changes) >= _MOST_CHANGES
            or not 0 <= rows.published_at - self._whole_at < MOST_AGE_MS
        )
        document = PublicationChange(
            batch_id=rows.batch_id,
            published_at=rows.published_at,
            after=after,
            is_whole=is_whole,
            bundles_gone=change.bundles_gone,
            brokers_gone=change.brokers_gone,
            changed=rows,
        )
        path = change_file(self._path, after)
        self._may_have_changes = True
        self._storage.write(path, encode_publication(document))
        self._changes.append(path)
        self._changed += count
        self._last = rows.id
        if is_whole:
            publication = whole()
            self._storage.write(self._path, encode_publication(publication))
            for old in self._changes_before:
                self._storage.delete(old)
            self._begin(publication)

    def _delete_changes(self) -> None:
        folder, _, name = self._path.rpartition("/")
        for entry in self._storage.entries(folder):
            if entry.name.startswith(f"{name}{CHANGE}"):
                self._storage.delete(f"{folder}/{entry.name}".lstrip("/"))
        self._may_have_changes = False

    def _begin(self, publication: PipelinePublication) -> None:
        """Reset the counts of changes, because the whole publication `publication` was written, which the next changes
        follow.
        """
        self._last, self._whole_at = publication.id, publication.published_at
        self._changed = 0
        self._changes_before, self._changes = self._changes, []


class _Head(msgspec.Struct, rename="camel"):
    batch_id: int
    published_at: int = 0
