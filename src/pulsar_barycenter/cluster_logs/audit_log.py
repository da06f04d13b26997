"""Who changed what by the admin REST interface of this broker: the latest changes in memory, all as JSON lines in a
file.

    <data>/audit/<broker>.jsonl

One line per change, oldest first. `json_lines` limits the size. No line contains a value that was set.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from pulsar_barycenter.cluster_logs.json_lines import JsonLines
from pulsar_barycenter.cluster_logs.record_pages import LATEST_MS, Key, cursor_of, find, merged

KEPT: Final = 1_000
MAX_WHY_CHARACTERS: Final = 1_000
"""The maximum number of characters of a reason."""


class Administered(msgspec.Struct, frozen=True, rename="camel", kw_only=True, omit_defaults=True):
    """A request that changed something, or may have changed something because it ended with status 500.

    `at` is ms since 1970 by the clock of the broker that executed the request, `by` the id of that broker; `number`
    counts the changes that this broker executed, from 1. `principal` is the role of the client ("nobody" without
    authentication), `address` the client's network address. `route` is the path with the names of its parts in braces;
    `about` maps these names to their values in the request, without values that the request sets, which may be secret.
    `why` is the header `X-Barycenter-Why`.
    """

    at: int
    by: str
    number: int
    principal: str
    address: str
    method: str
    route: str
    about: Mapping[str, str]
    status: int
    request_id: str
    why: str = ""


class AuditPage(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Changes, oldest first. `next` is the cursor for older ones, "" if there are none. `silent` are the brokers that
    did not answer; their changes are missing.
    """

    changes: list[Administered]
    next: str = ""
    silent: list[str] = []


@dataclass(frozen=True, slots=True)
class AuditQuestion:
    """Selects changes. `since_ms` and `until_ms` are inclusive, ms since 1970. A blank `request_id` selects all."""

    since_ms: int = 0
    until_ms: int = LATEST_MS
    request_id: str = ""
    before: Key | None = None
    limit: int = 100

    @property
    def latest_ms(self) -> int:
        return self.until_ms if self.before is None else min(self.until_ms, self.before[0])

    def wants(self, record: Administered) -> bool:
        key = record.at, record.by, record.number
        return (
            self.since_ms <= record.at <= self.until_ms
            and (self.before is None or key < self.before)
            and self.request_id in ("", record.request_id)
        )


class AuditLog:
    """Stores the requests that changed something (the audit log). With `folder` None they are stored in memory only.
    For each record that cannot be written to the file, the process log gets one line; no error is raised.
    """

    def __init__(self, broker_id: str, folder: Path | None = None) -> None:
        self._broker_id = broker_id
        self.folder = folder
        self._lines = None if folder is None else JsonLines(folder, broker_id, lost="change_not_audited")
        self._records: deque[Administered] = deque(maxlen=KEPT)
        self._number = 0

    def record(
        self,
        at_ms: int,
        *,
        principal: str,
        address: str,
        method: str,
        route: str,
        about: Mapping[str, str],
        status: int,
        request_id: str,
        why: str = "",
    ) -> Administered:
        """Store a record of one request that changed something, and return the record."""
        self._number += 1
        record = Administered(
            at=at_ms,
            by=self._broker_id,
            number=self._number,
            principal=principal,
            address=address,
            method=method,
            route=route,
            about=about,
            status=status,
            request_id=request_id,
            why=why[:MAX_WHY_CHARACTERS],
        )
        self._records.append(record)
        if self._lines is not None:
            self._lines.append(record)
        return record

    def recent(self) -> list[Administered]:
        return list(self._records)


_decode: Final = msgspec.json.Decoder(Administered).decode


def read_changes(folder: Path | None, question: AuditQuestion, remembered: Iterable[Administered] = ()) -> AuditPage:
    """Return the newest `question.limit` changes that `question` selects, from the logs in `folder` and from
    `remembered`, the changes in memory. `folder` None: only those in memory. Blocking; call it on a separate thread.
    """
    found = find(folder, question, remembered, _decode)
    return AuditPage(changes=found.records, next="" if found.cut is None else cursor_of(found.cut))


def merged_changes(pages: Sequence[AuditPage], limit: int, silent: Iterable[str] = ()) -> AuditPage:
    """Merge the pages with which several brokers answered the same question into one page of the newest changes, at
    most `limit`. `silent` are the brokers that did not answer.
    """
    records, cut = merged([(page.changes, page.next) for page in pages], limit)
    return AuditPage(changes=records, next="" if cut is None else cursor_of(cut), silent=sorted(silent))
