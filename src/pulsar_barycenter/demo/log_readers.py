"""Reads the logs of brokers and the pipeline while they run; the log of a killed broker stays readable."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from pulsar_barycenter.cluster_logs.decision_log import DecisionRecord
from pulsar_barycenter.demo.record import Event

_KINDS = {"assign": "assignment", "unload": "unload", "split": "split"}


class DecisionReader:
    """Reads the decisions in the logs of brokers: each call of `new_events` returns those that were written since the
    previous call. An incomplete line is returned by a later call.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._offsets: dict[Path, int] = {}
        self._decoder = msgspec.json.Decoder(DecisionRecord)

    def new_events(self) -> list[Event]:
        events = []
        for file in sorted(self._folder.glob("*.jsonl")):
            with file.open("rb") as lines:
                lines.seek(self._offsets.get(file, 0))
                complete = lines.read().rpartition(b"\n")[0]
            self._offsets[file] = self._offsets.get(file, 0) + len(complete) + (1 if complete else 0)
            events += [event for line in complete.splitlines() if (event := self._event(line)) is not None]
        return events

    def _event(self, line: bytes) -> Event | None:
        decision = self._decoder.decode(line)
        kind = _KINDS.get(decision.kind)
        if kind is None:
            return None
        return Event(
            at_s=decision.at / 1000,
            kind=kind,
            bundle=decision.bundle,
            source=decision.source or None,
            destination=decision.destination or None,
            reason=decision.sentence,
        )


class _Batch(msgspec.Struct):
    event: str
    lag_seconds: float | None = None
    reason: str = ""


class PipelineBatches(NamedTuple):
    """What became of the pipeline's batches. `lags_s` has, for each batch that had reports, the seconds from its oldest
    report to its publication; `failures` has the reason of each batch that failed, oldest first.
    """

    lags_s: Sequence[float] = ()
    failures: Sequence[str] = ()


def pipeline_batches(log: Path) -> PipelineBatches:
    """Read the batches of a run from the pipeline's log."""
    decoder = msgspec.json.Decoder(_Batch)
    batches = [
        decoder.decode(line)
        for line in log.read_bytes().splitlines()
        if b'"pipeline_batch"' in line or b'"pipeline_batch_failed"' in line
    ]
    return PipelineBatches(
        [batch.lag_seconds for batch in batches if batch.lag_seconds is not None],
        [batch.reason for batch in batches if batch.event == "pipeline_batch_failed"],
    )
