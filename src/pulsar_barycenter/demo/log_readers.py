"""Reads the logs of brokers and the pipeline while they run; the log of a killed broker stays readable."""

from pathlib import Path

import msgspec

from pulsar_barycenter.cluster_logs.decision_log import DecisionRecord
from pulsar_barycenter.demo.record import Event

_KINDS = {"assign": "assignment", "unload": "unload", "split": "split"}


class DecisionReader:
    """Reads the decisions that brokers have written to their logs since the last call; a line that is incomplete is
    read by a later call.
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


def pipeline_lags_s(log: Path) -> list[float]:
    """Return, for each batch that had reports, the seconds from its oldest report to its publication."""
    lags = []
    decoder = msgspec.json.Decoder(_Batch)
    for line in log.read_bytes().splitlines():
        if b'"pipeline_batch"' in line:
            batch = decoder.decode(line)
            if batch.lag_seconds is not None:
                lags.append(batch.lag_seconds)
    return lags
