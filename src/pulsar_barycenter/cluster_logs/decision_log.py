"""The decisions of this broker and their reasons: the latest ones in memory for REST, all as JSON lines in a file.

    <data>/decisions/<broker>.jsonl

One line per decision, oldest first, with the fields of `DecisionRecord`. `json_lines` limits the size.
"""

from collections import deque
from itertools import islice
from pathlib import Path
from typing import Final, Literal

import msgspec

from pulsar_barycenter.cluster_logs.json_lines import JsonLines
from pulsar_barycenter.load.reasons import BROKER_SHEDS, Reason, render

KEPT: Final = 10_000
ANONYMOUS: Final = "anonymous"
"""The principal of a person's decision while authentication is off."""

Kind = Literal["assign", "unload", "split", "refuse", "shed", "elect", "drain", "undrain"]


class DecisionRecord(msgspec.Struct, frozen=True, rename="camel", kw_only=True, omit_defaults=True):
    """One decision about load, as a line of the decision log. `at` is ms since 1970 by the clock of the broker that
    decided, `by` the id of that broker; `number` counts the decisions of that broker from 1.

    | kind | meaning |
    |---|---|
    | assign | `destination` is to own `bundle` |
    | unload | `bundle` leaves `source`; `destination` is its next owner, blank: the next look-up chooses one |
    | split | `source`, the owner of `bundle`, splits it |
    | refuse | `refused` ("assign", "unload" or "split") of `bundle` was considered and not done |
    | shed | the outcome of a shedding round, recorded when it differs from the previous one |
    | elect | `destination` leads from now on, in term `epoch`; `source` led before, blank: no broker did |
    | drain | all bundles are to leave `source`, and it gets no more bundles |
    | undrain | `source` may get bundles again |

    `sentence` is `reason` as text. `manager` is the load manager that decided (`load.managers`), `strategy` its
    strategy; both are blank if they are unknown, or if a person decided. If a person decided, `principal` is the role
    (ANONYMOUS while authentication is off), and `request` the HTTP request. `request_id` is the id of the request that
    caused the decision, as in the logs of all brokers (`request_ids`).
    """

    at: int
    by: str
    number: int
    kind: Kind
    reason: Reason
    sentence: str
    bundle: str = ""
    source: str = ""
    destination: str = ""
    refused: str = ""
    manager: str = ""
    strategy: str = ""
    principal: str = ""
    request: str = ""
    request_id: str = ""
    epoch: int = 0

    @property
    def decided_by(self) -> str:
        """Return as text who decided: a person's principal, or a load manager; "" if unknown."""
        if self.principal:
            return self.principal
        return f"the {self.manager} load manager" if self.manager else ""

    @property
    def outcome(self) -> str:
        """Return as text what was decided: the kind, for "refuse" also what was refused; "kept" instead of "shed" for a
        round in which no broker sheds.
        """
        if self.kind == "shed" and self.reason.code not in BROKER_SHEDS:
            return "kept"
        return f"{self.kind} {self.refused}".strip()

    def concerns(self, *, bundle: str = "", namespace: str = "", broker: str = "") -> bool:
        """Return whether the decision is about the given bundle, namespace and broker: all that are given must match. A
        blank argument matches every decision.

        A shedding round is about every broker, so it matches any `broker`.
        """
        if bundle and self.bundle != bundle:
            return False
        if namespace and self.bundle.rpartition("/")[0] != namespace:
            return False
        return not broker or broker in (self.source, self.destination) or self.kind == "shed"


class DecisionLog:
    """Stores decisions. With `folder` None they are stored in memory only. For each decision that cannot be written to
    the file, the process log gets one line; no error is raised.
    """

    def __init__(self, broker_id: str, folder: Path | None = None, *, kept: int = KEPT) -> None:
        self._broker_id = broker_id
        self.folder = folder
        self._lines = None if folder is None else JsonLines(folder, broker_id, lost="decision_not_logged")
        self._records: deque[DecisionRecord] = deque(maxlen=kept)
        self._number = 0
        self._commands = 0

    def record(
        self,
        at_ms: int,
        kind: Kind,
        reason: Reason,
        *,
        bundle: str = "",
        source: str = "",
        destination: str = "",
        refused: str = "",
        manager: str = "",
        principal: str = "",
        request: str = "",
        request_id: str = "",
        epoch: int = 0,
    ) -> DecisionRecord:
        """Store one decision and return it."""
        self._number += 1
        record = DecisionRecord(
            at=at_ms,
            by=self._broker_id,
            number=self._number,
            kind=kind,
            reason=reason,
            sentence=render(reason),
            bundle=bundle,
            source=source,
            destination=destination,
            refused=refused,
            manager=manager,
            strategy=_strategy(reason),
            principal=principal,
            request=request,
            request_id=request_id,
            epoch=epoch,
        )
        self._records.append(record)
        if self._lines is not None:
            self._lines.append(record)
        return record

    @property
    def made(self) -> int:
        """The number of decisions that were recorded with this object, since it was created."""
        return self._number

    def count_command(self) -> int:
        """Count a command that the leader sends to another broker. Return the number of commands that were counted with
        this object, since it was created.
        """
        self._commands += 1
        return self._commands

    def recent(self, limit: int = KEPT) -> list[DecisionRecord]:
        """Return the last `limit` decisions, oldest first."""
        skip = max(0, len(self._records) - max(0, limit))
        return list(islice(self._records, skip, None))


def read_decisions(data: Path) -> list[DecisionRecord]:
    """Return the decisions in the logs of a data folder, or of a folder of logs, oldest first.

    Incomplete lines are skipped.

    Raises:
        OSError: a file cannot be read.
    """
    folder = data / "decisions" if (data / "decisions").is_dir() else data
    found = []
    decoder = msgspec.json.Decoder(DecisionRecord)
    for file in [*sorted(folder.glob("*.jsonl.1")), *sorted(folder.glob("*.jsonl"))]:
        for line in file.read_bytes().splitlines():
            try:
                found.append(decoder.decode(line))
            except msgspec.DecodeError:
                continue
    return sorted(found, key=lambda record: (record.at, record.by, record.number))


def _strategy(reason: Reason) -> str:
    """Return the name of the strategy in a reason, or, if it names none, in the reason that caused it."""
    found: Reason | None = reason
    while found is not None and not found.strategy:
        found = found.cause
    return "" if found is None else found.strategy
