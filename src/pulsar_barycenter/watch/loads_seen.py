"""The loads of brokers and bundles over time, in bounded memory: the oldest reports make room for the newest.

The loads of the bundles of a report are kept as 32-bit numbers. Consecutive reports of a broker share the names of its
bundles. So four million loads of bundles take some 32 MB.
"""

from array import array
from bisect import bisect_left
from collections import deque
from dataclasses import dataclass
from typing import Final

from pulsar_barycenter.load.reports.load_over_time import (
    BrokerLoad,
    LoadOverTime,
    LoadQuestion,
    Moment,
    RecordedLoad,
    in_steps,
    over_time,
)
from pulsar_barycenter.load.reports.load_report import LocalBrokerData
from pulsar_barycenter.load.snapshot.reported import reported_load

MAX_FIGURES: Final = 4_000_000
"""The maximum number of loads that are kept, those of bundles and of brokers together."""
_FORGOTTEN: Final = "Older loads are not kept in memory."


@dataclass(frozen=True, slots=True)
class _Seen:
    """The loads in one load report: `load` is that of the broker. `names` are its bundles, sorted; `rates` (msg/s) and
    `throughputs` (bytes/s) are those of these bundles, in the same order.
    """

    at_ms: int
    load: BrokerLoad
    names: tuple[str, ...]
    rates: "array[float]"
    throughputs: "array[float]"

    @property
    def figures(self) -> int:
        return 1 + len(self.names)

    def of_bundle(self, bundle: str) -> BrokerLoad | None:
        row = bisect_left(self.names, bundle)
        if row == len(self.names) or self.names[row] != bundle:
            return None
        return BrokerLoad(self.load.broker, None, round(self.rates[row], 2), round(self.throughputs[row], 1), None)


class LoadsSeen:
    """Keeps the loads from the reports that were read, oldest first. When they are more than a maximum number of
    values, the oldest reports are dropped.
    """

    def __init__(self, *, most: int = MAX_FIGURES) -> None:
        self._most = most
        self._seen: deque[_Seen] = deque()
        self._names: dict[str, tuple[str, ...]] = {}
        self._count = 0
        self._whole_since_ms = 0

    def add(self, broker: str, report: LocalBrokerData) -> None:
        """Add the loads of a report; drop the oldest reports if the limit of values is passed."""
        found = _seen(broker, report, self._names.get(broker, ()))
        self._names[broker] = found.names
        self._seen.append(found)
        self._count += found.figures
        while self._count > self._most and len(self._seen) > 1:
            dropped = self._seen.popleft()
            self._count -= dropped.figures
            self._whole_since_ms = dropped.at_ms + 1

    def since_ms(self) -> int:
        """Return the time of the oldest report that is kept (epoch ms); 0 if there is none."""
        return self._seen[0].at_ms if self._seen else 0

    def answer(self, question: LoadQuestion, *, holds_ms: int) -> LoadOverTime:
        """Return the load over time that `question` asks for. The load of a broker in a report is valid until its next
        report, but at most for `holds_ms` ms; the load of a bundle until any broker reports the bundle again, but at
        most for `holds_ms` ms.
        """
        earlier = question.from_earlier(holds_ms)
        moments = [
            Moment(seen.at_ms, (load,))
            for seen in self._seen
            if earlier.since_ms <= seen.at_ms < earlier.until_ms and (load := _asked(seen, question)) is not None
        ]
        note = _FORGOTTEN if self._whole_since_ms > question.since_ms else ""
        if question.bundle:
            loads = _of_one(in_steps(earlier, moments), earlier, holds_ms)
            return over_time(question, (), RecordedLoad(loads, self._whole_since_ms, note), holds_ms=0)
        recorded = RecordedLoad(in_steps(earlier, moments), self._whole_since_ms, note)
        return over_time(question, (), recorded, holds_ms=holds_ms)


def _asked(seen: _Seen, question: LoadQuestion) -> BrokerLoad | None:
    """Return the load that `question` asks for, from the report `seen`; None if the report is of another broker, or
    does not have the bundle.
    """
    if question.bundle:
        return seen.of_bundle(question.bundle)
    return seen.load if question.broker in ("", seen.load.broker) else None


def _of_one(
    steps: dict[int, list[BrokerLoad]], question: LoadQuestion, holds_ms: int
) -> dict[int, tuple[BrokerLoad, ...]]:
    """Return the load of a bundle for the begin of each step (epoch ms). It is the load that was reported last, by any
    broker, and it is valid for `holds_ms`; a step without a valid load is left out. `steps` has the reported loads by
    the begin of their step.
    """
    found: dict[int, tuple[BrokerLoad, ...]] = {}
    last: tuple[BrokerLoad, ...] = ()
    last_ms = 0
    for begin in range(question.since_ms, question.until_ms, question.step_ms):
        if rows := steps.get(begin):
            last, last_ms = (rows[-1],), begin
        if last and begin - last_ms <= holds_ms:
            found[begin] = last
    return found


def _seen(broker: str, report: LocalBrokerData, before: tuple[str, ...]) -> _Seen:
    load = reported_load(report)
    names = tuple(sorted(report.last_stats))
    names = before if names == before else names
    stats = [report.last_stats[name] for name in names]
    return _Seen(
        report.last_update,
        BrokerLoad(
            broker,
            load.max_usage,
            load.msg_rate_in + load.msg_rate_out,
            load.msg_throughput_in + load.msg_throughput_out,
            load.bundles,
        ),
        names,
        array("f", (one.msg_rate_in + one.msg_rate_out for one in stats)),
        array("f", (one.msg_throughput_in + one.msg_throughput_out for one in stats)),
    )
