"""Formats the tables of Pulsar's `monitor-brokers`: one for each broker, in the layout of its load manager, and one of
all brokers.

Cells are left-aligned, and cut or padded to their width plus one blank. Numbers have two decimals; unknown values are
blank. KB/s are bytes/s divided by 1,024; percentages refer to the limits that brokers report. Example: the first two
rows of a broker with the modular load manager, with smaller widths:

    ||SYSTEM    |CPU %     |MEMORY %  |DIRECT %  |BW IN %   |BW OUT %  |MAX %     ||
    ||          |0.00      |48.33     |0.01      |0.00      |0.00      |48.33     ||

Source: Pulsar's `BrokerMonitor`. Differences: in the table of all brokers each value is below its title (Pulsar swaps
LONG/S and KB/S in the rows of brokers), and MAX % is a percentage for every load manager.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from pulsar_barycenter.load.reports.extensible_reports import BrokerLoadData
from pulsar_barycenter.load.reports.load_report import (
    LocalBrokerData,
    TimeAverageBrokerData,
    resources_of,
)
from pulsar_barycenter.load.reports.simple_load_report import LoadReport

Report: TypeAlias = LoadReport | LocalBrokerData | BrokerLoadData
"""A report of the simple, the modular or the extensible load manager."""

_Cell: TypeAlias = str | float | int | None

_WIDTH: Final = 14
_OVERALL_WIDTHS: Final = (60, 12, 12, 12, 12, 12)
_SYSTEM: Final = ("CPU %", "MEMORY %", "DIRECT %", "BW IN %", "BW OUT %", "MAX %")
_COUNT: Final = ("TOPIC", "BUNDLE", "PRODUCER", "CONSUMER", "BUNDLE +", "BUNDLE -")
_TRAFFIC: Final = ("MSG/S IN", "MSG/S OUT", "TOTAL", "KB/S IN", "KB/S OUT", "TOTAL")
_OVERALL: Final = ("BROKER", "BUNDLE", "MSG/S", "LONG/S", "KB/S", "MAX %")


@dataclass(frozen=True, slots=True)
class MonitoredBroker:
    """A broker with its load report. `average` is the broker's average load over time, which the leader of the modular
    load manager stores; None if it is not known.
    """

    name: str
    report: Report
    average: TimeAverageBrokerData | None = None


def broker_table(broker: MonitoredBroker) -> list[str]:
    """Return the lines of a broker's table, beginning with its title."""
    report, average = broker.report, broker.average
    if isinstance(report, LoadReport):
        title = "Load Report"
        rows = [
            *_of("COUNT", _COUNT, _counts(report)),
            *_of("RAW SYSTEM", _SYSTEM, _system(report)),
            *_of("ALLOC SYSTEM", _SYSTEM, _allotted(report)),
            *_of("RAW MSG", _TRAFFIC, _traffic(report)),
            *_of(
                "ALLOC MSG",
                _TRAFFIC,
                _sums(
                    report.allocated_msg_rate_in,
                    report.allocated_msg_rate_out,
                    report.allocated_bandwidth_in,
                    report.allocated_bandwidth_out,
                ),
            ),
        ]
    else:
        title = "Broker Data"
        rows = [
            *_of("SYSTEM", _SYSTEM, _system(report)),
            *_of("COUNT", _COUNT, _counts(report)),
            *_of("LATEST", _TRAFFIC, _traffic(report)),
        ]
        if isinstance(report, LocalBrokerData):
            rows += [*_of("SHORT", _TRAFFIC, _short(average)), *_of("LONG", _TRAFFIC, _long(average))]
    lines = [_line(row, (_WIDTH,) * len(row)) for row in rows]
    border = "=" * len(lines[0])
    return [f"{title} for {broker.name}:", border, *lines, border]


def overall_table(brokers: Iterable[MonitoredBroker]) -> list[str]:
    """Return the lines of the table of all brokers, sorted by name. The last row has the sum of each column; in the
    column MAX % it has the maximum.
    """
    rows = [_overall(broker) for broker in sorted(brokers, key=lambda broker: broker.name)]
    sums: list[_Cell] = ["TOTAL"]
    sums += [sum((float(row[column] or 0) for row in rows), 0.0) for column in range(1, len(_OVERALL) - 1)]
    sums[1] = int(float(sums[1] or 0))
    sums.append(max((float(row[-1] or 0) for row in rows), default=0.0))
    lines = [_line(row, _OVERALL_WIDTHS) for row in (_OVERALL, *rows, sums)]
    border = "*" * len(lines[0])
    return ["Overall Broker Data:", border, *lines, border]


def _overall(broker: MonitoredBroker) -> list[_Cell]:
    report, average = broker.report, broker.average
    bundles = report.bundle_count if isinstance(report, BrokerLoadData) else report.num_bundles
    long: float | None = None
    if isinstance(report, LoadReport):
        long = report.allocated_msg_rate_in + report.allocated_msg_rate_out
    elif average is not None:
        long = average.long_term_msg_rate_in + average.long_term_msg_rate_out
    latest = _traffic(report)
    return [broker.name, bundles, latest[2], long, latest[5], _system(report)[-1]]


def _of(label: str, titles: Sequence[str], figures: Sequence[_Cell]) -> tuple[Sequence[_Cell], Sequence[_Cell]]:
    return (label, *titles), ("", *figures)


def _line(cells: Sequence[_Cell], widths: Sequence[int]) -> str:
    texts = (f"{_text(cell):<{width}.{width}} " for cell, width in zip(cells, widths, strict=True))
    return f"||{'|'.join(texts)}||"


def _text(cell: _Cell) -> str:
    if cell is None:
        return ""
    return f"{cell:.2f}" if isinstance(cell, float) else str(cell)


def _percent(usage: float, limit: float) -> float:
    return 100.0 * usage / limit if limit > 0 else 0.0


def _system(report: Report) -> list[_Cell]:
    source = report.system_resource_usage if isinstance(report, LoadReport) else report
    percents = [_percent(resource.usage, resource.limit) for resource in resources_of(source)]
    return [*percents, max(percents)]


def _allotted(report: LoadReport) -> list[_Cell]:
    system = report.system_resource_usage
    cpu = _percent(report.allocated_cpu, system.cpu.limit)
    memory = _percent(report.allocated_memory, system.memory.limit)
    into = _percent(report.allocated_bandwidth_in, system.bandwidth_in.limit)
    out = _percent(report.allocated_bandwidth_out, system.bandwidth_out.limit)
    return [cpu, memory, None, into, out, max(cpu, memory, into, out)]


def _counts(report: Report) -> list[_Cell]:
    if isinstance(report, BrokerLoadData):
        return [None, report.bundle_count, None, None, None, None]
    if isinstance(report, LoadReport):
        gains, losses = report.bundle_gains, report.bundle_losses
    else:
        gains, losses = report.last_bundle_gains, report.last_bundle_losses
    return [
        report.num_topics,
        report.num_bundles,
        report.num_producers,
        report.num_consumers,
        len(gains),
        len(losses),
    ]


def _traffic(report: Report) -> list[_Cell]:
    return _sums(report.msg_rate_in, report.msg_rate_out, report.msg_throughput_in, report.msg_throughput_out)


def _short(average: TimeAverageBrokerData | None) -> list[_Cell]:
    if average is None:
        return [None] * len(_TRAFFIC)
    return _sums(
        average.short_term_msg_rate_in,
        average.short_term_msg_rate_out,
        average.short_term_msg_throughput_in,
        average.short_term_msg_throughput_out,
    )


def _long(average: TimeAverageBrokerData | None) -> list[_Cell]:
    if average is None:
        return [None] * len(_TRAFFIC)
    return _sums(
        average.long_term_msg_rate_in,
        average.long_term_msg_rate_out,
        average.long_term_msg_throughput_in,
        average.long_term_msg_throughput_out,
    )


def _sums(rate_in: float, rate_out: float, bytes_in: float, bytes_out: float) -> list[_Cell]:
    return [rate_in, rate_out, rate_in + rate_out, bytes_in / 1024, bytes_out / 1024, (bytes_in + bytes_out) / 1024]
