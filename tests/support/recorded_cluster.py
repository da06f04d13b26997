"""A recording of a cluster of three brokers, as `collect` writes it: forty minutes in which four bundles move.

| minute | what happens | what can be told of it |
|---|---|---|
| 20 | the broker `busy` gives its heaviest bundles away, as UniformLoadShedder decides | the recomputed round agrees |
| 28 | a person moves a light bundle from `calm` to `busy` | the recomputed round does not agree |
| 34 | `calm` is gone, and its bundles are elsewhere | no strategy explains it |
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from pulsar_barycenter.cluster_logs.load_report_log import FileReportLog
from pulsar_barycenter.load.managers import ManagerKind
from pulsar_barycenter.load.reports.load_report import (
    LocalBrokerData,
    NamespaceBundleStats,
    ResourceUsage,
    with_stats,
)
from pulsar_barycenter.observer.recorded_settings import SETTINGS_FILE, RecordedSettings, append_settings

BEGIN_MS: Final = 1_770_000_000_000
MINUTE_MS: Final = 60_000
MINUTES: Final = 40
BUSY, CALM, SPARE = "busy.example:8080", "calm.example:8080", "spare.example:8080"
NAMESPACE: Final = "shop/orders"
BUNDLES: Final = [f"{NAMESPACE}/0x{number:x}0000000_0x{number + 1:x}0000000" for number in range(12)]
"""Six of BUSY, four of CALM, two of SPARE."""
SHED: Final = (BUNDLES[0], BUNDLES[1])
BY_HAND: Final = BUNDLES[7]
BY_HAND_MINUTE, GONE_MINUTE, SHED_MINUTE = 28, 34, 20
SETTINGS: Final = {
    "loadManagerClassName": ManagerKind.MODULAR.class_name,
    "loadBalancerLoadSheddingStrategy": "org.apache.pulsar.broker.loadbalance.impl.UniformLoadShedder",
    "loadBalancerSheddingEnabled": "true",
    "loadBalancerSheddingIntervalMinutes": "1",
}
RATES: Final = {bundle: 4_000.0 - 300 * number for number, bundle in enumerate(BUNDLES)}
"""Messages/s in; a message has 1,000 bytes."""


def owners_at(minute: int, shed: tuple[str, ...]) -> dict[str, str]:
    """Return the owner of each bundle; `shed` are those that BUSY gives away at SHED_MINUTE."""
    owners = {bundle: BUSY if place < 6 else CALM if place < 10 else SPARE for place, bundle in enumerate(BUNDLES)}
    if minute >= SHED_MINUTE:
        owners |= dict.fromkeys(shed, SPARE)
    if minute >= BY_HAND_MINUTE:
        owners[BY_HAND] = BUSY
    if minute >= GONE_MINUTE:
        owners = {bundle: SPARE if broker == CALM else broker for bundle, broker in owners.items()}
    return owners


def reports_at(minute: int, owners: Mapping[str, str]) -> Iterator[LocalBrokerData]:
    for place, broker in enumerate((BUSY, CALM, SPARE)):
        if broker == CALM and minute >= GONE_MINUTE:
            continue
        stats = {
            bundle: NamespaceBundleStats(
                msg_rate_in=RATES[bundle] * (1 + 0.02 * (minute % 5)),
                msg_throughput_in=1_000 * RATES[bundle],
                msg_rate_out=RATES[bundle],
                msg_throughput_out=1_000 * RATES[bundle],
                topics=4,
                producer_count=2,
                consumer_count=2,
            )
            for bundle, owner in owners.items()
            if owner == broker
        }
        rate = sum(one.msg_rate_in for one in stats.values())
        plain = LocalBrokerData(
            broker_id=broker,
            cpu=ResourceUsage(min(95.0, rate / 200), 100.0),
            memory=ResourceUsage(400.0, 1_024.0),
            load_manager_class_name=ManagerKind.MODULAR.class_name,
            broker_version_string="4.2.4",
            incarnation=f"pulsar-{place}",
            start_timestamp=BEGIN_MS - 1,
            num_topics=4 * len(stats),
        )
        at_ms = BEGIN_MS + minute * MINUTE_MS + 100 * place
        yield replace(with_stats(plain, stats), last_update=at_ms, sequence=minute + 1, num_bundles=len(stats))


def record(
    folder: Path, *, minutes: range = range(MINUTES), shed: tuple[str, ...] = SHED, cluster: str = "orders"
) -> None:
    """Write the recording of these minutes into a folder, as `collect` does."""
    log = FileReportLog(folder / "load-reports", retention_hours=10**6)
    (folder / "collect.json").touch()
    for minute in minutes:
        for report in reports_at(minute, owners_at(minute, shed)):
            log.append(report)
    append_settings(
        folder / SETTINGS_FILE, RecordedSettings(at=BEGIN_MS, cluster=cluster, leader=SPARE, settings=dict(SETTINGS))
    )
