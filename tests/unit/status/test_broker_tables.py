"""The tables of `monitor-brokers`, compared with those of Pulsar's documents."""

from typing import Any

import msgspec

from pulsar_barycenter.load.reports.extensible_reports import BrokerLoadData
from pulsar_barycenter.load.reports.load_report import LocalBrokerData, ResourceUsage, TimeAverageBrokerData
from pulsar_barycenter.load.reports.simple_load_report import LoadReport, SystemResourceUsage
from pulsar_barycenter.status.broker_tables import MonitoredBroker, broker_table, overall_table

PUBLISHED_EXTENSIBLE = """
||SYSTEM |CPU % |MEMORY % |DIRECT % |BW IN % |BW OUT % |MAX % ||
|| |17.24 |12.40 |26.95 |0.00 |0.00 |26.95 ||
||COUNT |TOPIC |BUNDLE |PRODUCER |CONSUMER |BUNDLE + |BUNDLE - ||
|| | |4 | | | | ||
||LATEST |MSG/S IN |MSG/S OUT |TOTAL |KB/S IN |KB/S OUT |TOTAL ||
|| |100.02 |0.02 |100.03 |103.89 |0.01 |103.90 ||
"""
PUBLISHED_MODULAR = """
||SYSTEM |CPU % |MEMORY % |DIRECT % |BW IN % |BW OUT % |MAX % ||
|| |0.91 |5.92 |14.06 |0.00 |0.00 |14.06 ||
||COUNT |TOPIC |BUNDLE |PRODUCER |CONSUMER |BUNDLE + |BUNDLE - ||
|| |4 |4 |0 |2 |4 |0 ||
||LATEST |MSG/S IN |MSG/S OUT |TOTAL |KB/S IN |KB/S OUT |TOTAL ||
|| |1.00 |2.00 |3.00 |1.00 |0.50 |1.50 ||
||SHORT |MSG/S IN |MSG/S OUT |TOTAL |KB/S IN |KB/S OUT |TOTAL ||
|| | | | | | | ||
||LONG |MSG/S IN |MSG/S OUT |TOTAL |KB/S IN |KB/S OUT |TOTAL ||
|| | | | | | | ||
"""
PUBLISHED_SIMPLE = """
||COUNT |TOPIC |BUNDLE |PRODUCER |CONSUMER |BUNDLE + |BUNDLE - ||
|| |4 |4 |0 |2 |1 |0 ||
||RAW SYSTEM |CPU % |MEMORY % |DIRECT % |BW IN % |BW OUT % |MAX % ||
|| |0.25 |47.94 |0.00 |0.00 |0.00 |47.94 ||
||ALLOC SYSTEM |CPU % |MEMORY % |DIRECT % |BW IN % |BW OUT % |MAX % ||
|| |0.20 |2.00 | |10.24 |20.48 |20.48 ||
||RAW MSG |MSG/S IN |MSG/S OUT |TOTAL |KB/S IN |KB/S OUT |TOTAL ||
|| |0.00 |0.00 |0.00 |0.00 |0.00 |0.00 ||
||ALLOC MSG |MSG/S IN |MSG/S OUT |TOTAL |KB/S IN |KB/S OUT |TOTAL ||
|| |54.84 |134.48 |189.32 |1.00 |2.00 |3.00 ||
"""


def squeezed(lines: list[str]) -> str:
    """The rows as the documents show them, runs of blanks made one."""
    return "\n" + "".join(" ".join(line.split()) + "\n" for line in lines[2:-1])


MODULAR = LocalBrokerData(
    cpu=ResourceUsage(7.31, 800),
    memory=ResourceUsage(124, 2096),
    direct_memory=ResourceUsage(36, 256),
    bandwidth_in=ResourceUsage(0.8, 1e7),
    num_topics=4,
    num_bundles=4,
    num_consumers=2,
    last_bundle_gains=("a", "b", "c", "d"),
    msg_rate_in=1.0,
    msg_rate_out=2.0,
    msg_throughput_in=1024.0,
    msg_throughput_out=512.0,
)


def test_the_layout_of_the_extensible_load_manager() -> None:
    report = BrokerLoadData(
        cpu=ResourceUsage(137.92, 800),
        memory=ResourceUsage(259.9, 2096),
        direct_memory=ResourceUsage(69, 256),
        bandwidth_in=ResourceUsage(0.1, 1e7),
        bandwidth_out=ResourceUsage(0.1, 1e7),
        msg_rate_in=100.016,
        msg_rate_out=0.016,
        msg_throughput_in=106_383.0,
        msg_throughput_out=10.0,
        bundle_count=4,
    )
    lines = broker_table(MonitoredBroker("b1:8080", report))
    assert lines[0] == "Broker Data for b1:8080:"
    assert squeezed(lines) == PUBLISHED_EXTENSIBLE
    assert {len(line) for line in lines[1:]} == {115}
    assert set(lines[1]) == set(lines[-1]) == {"="}


def test_the_layout_of_the_modular_load_manager() -> None:
    assert squeezed(broker_table(MonitoredBroker("b1:8080", MODULAR))) == PUBLISHED_MODULAR
    average = TimeAverageBrokerData(short_term_msg_rate_in=7.0, long_term_msg_throughput_out=2048.0)
    lines = broker_table(MonitoredBroker("b1:8080", MODULAR, average))
    assert "7.00" in lines[-4]
    assert "2.00" in lines[-2]


def test_the_layout_of_the_simple_load_manager() -> None:
    usage = SystemResourceUsage(
        cpu=ResourceUsage(2, 800),
        memory=ResourceUsage(479.4, 1000),
        direct_memory=ResourceUsage(0, 256),
        bandwidth_in=ResourceUsage(0, 1e4),
        bandwidth_out=ResourceUsage(0, 1e4),
    )
    report = LoadReport(
        system_resource_usage=usage,
        num_topics=4,
        num_bundles=4,
        num_consumers=2,
        bundle_gains=("a",),
        allocated_cpu=1.6,
        allocated_memory=20.0,
        allocated_bandwidth_in=1024.0,
        allocated_bandwidth_out=2048.0,
        allocated_msg_rate_in=54.84,
        allocated_msg_rate_out=134.48,
    )
    lines = broker_table(MonitoredBroker("b1:8080", report))
    assert lines[0] == "Load Report for b1:8080:"
    assert squeezed(lines) == PUBLISHED_SIMPLE


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_the_table_of_all_has_each_figure_below_its_title_and_their_sums() -> None:
    average = TimeAverageBrokerData(long_term_msg_rate_in=10.0, long_term_msg_rate_out=5.0)
    heavier: Any = msgspec.structs.replace(MODULAR, num_bundles=6, direct_memory=ResourceUsage(128, 256))
    lines = overall_table([MonitoredBroker("b2", heavier), MonitoredBroker("b1", MODULAR, average)])
    assert lines[0] == "Overall Broker Data:"
    assert {len(line) for line in lines[1:]} == {135}
    assert cells(lines[2]) == ["BROKER", "BUNDLE", "MSG/S", "LONG/S", "KB/S", "MAX %"]
    assert cells(lines[3]) == ["b1", "4", "3.00", "15.00", "1.50", "14.06"]
    assert cells(lines[4]) == ["b2", "6", "3.00", "", "1.50", "50.00"]
    assert cells(lines[5]) == ["TOTAL", "10", "6.00", "15.00", "3.00", "50.00"]
    assert cells(overall_table([])[3]) == ["TOTAL", "0", "0.00", "0.00", "0.00", "0.00"]


def test_figures_without_limits_and_names_too_long_keep_the_shape() -> None:
    odd = LocalBrokerData(cpu=ResourceUsage(5, 0), msg_rate_in=1e30)
    assert {len(line) for line in broker_table(MonitoredBroker("b" * 200, odd))[1:]} == {115}
    assert {len(line) for line in overall_table([MonitoredBroker("b" * 200, odd)])[1:]} == {135}
