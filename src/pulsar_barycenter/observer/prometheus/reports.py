"""Makes the load reports of brokers from the series of a window, and follows brokers and owners over the windows. Pure.

A broker is a scrape target. Its id is the `broker` of its metrics of load with the port of the target, as the target of
a pod is often an IP address. A broker that started again has another incarnation.

Only one broker serves a bundle, but two may have its metrics at a step while it moves. Then the owner is the broker
that had no metrics of the bundle at the step before; if there is no such broker, the owner of the step before stays.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from pulsar_barycenter.load.reports.load_report import (
    UNKNOWN_USAGE,
    LocalBrokerData,
    NamespaceBundleStats,
    ResourceUsage,
    max_resource_usage,
)
from pulsar_barycenter.naming.counted import count_of
from pulsar_barycenter.observer.prometheus.series import (
    CPU,
    NETWORK_IN,
    NETWORK_OUT,
    STARTED,
    ImportRefusedError,
    Window,
)
from pulsar_barycenter.observer.prometheus.window import WindowSums
from pulsar_barycenter.observer.report_numbers import OF_APACHE_PULSAR

SILENCE_MS: Final = 20 * 60_000
"""Replays refuse a history in which no broker reports for longer."""
MAX_GAPS: Final = 1_000
"""The maximum number of gaps that are stored; later gaps are left out."""
_MOST_OVERLAPPING: Final = 5
"""A broker may have two targets for this number of steps of a window (inclusive), while its pod is replaced; with more,
the import is refused.
"""
_KBITS_A_GBIT: Final = 1_000_000.0


class Hardware(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The hardware of each broker: the number of CPU cores, and the capacity of its network in Gbit/s. None: not known.
    Then a broker counts as having one core, and the usage of the network is unknown.
    """

    cores: float | None = None
    network_gbits: float | None = None

    def cpu(self, percent: float | None) -> ResourceUsage:
        """Return the usage of CPU and its limit, both in percent of one core. `percent` is the usage in percent of all
        cores of the broker; None: the usage is unknown.
        """
        if percent is None:
            return UNKNOWN_USAGE
        cores = 1.0 if self.cores is None else self.cores
        return ResourceUsage(percent * cores, 100.0 * cores)

    def network(self, percent: float | None) -> ResourceUsage:
        """Return the usage of the network in one direction and its limit, both in kbit/s. `percent` is the usage in
        percent of the capacity; None: the usage is unknown.
        """
        if percent is None or self.network_gbits is None:
            return UNKNOWN_USAGE
        limit = self.network_gbits * _KBITS_A_GBIT
        return ResourceUsage(percent / 100 * limit, limit)


class Followed(msgspec.Struct, rename="camel"):
    """What an import knows about brokers and bundles at the end of a window of steps; the import of the next window
    starts with it. An *instance* is a scrape target of Prometheus.

    `brokers` maps instances to broker ids. `holders` maps each bundle to the instances that had metrics of the bundle
    at the last step; the first one is its owner. `gaps` are times without any metric, as (last step before, first step
    after), epoch ms. `overlaps` counts bundles at steps at which two brokers had metrics of them.
    """

    brokers: dict[str, str] = {}
    holders: dict[str, list[str]] = {}
    lives: dict[str, str] = {}
    sequences: dict[str, int] = {}
    last_ms: int = 0
    gaps: list[tuple[int, int]] = []
    overlaps: int = 0
    placed: int = 0
    """The number of bundles with metrics, added up over all steps."""


@dataclass(frozen=True, slots=True)
class Naming:
    """How the incarnations in imported reports are named: `recording` distinguishes imports. If `is_apache_pulsar` is
    True, the names have the prefix that marks reports of Apache Pulsar's brokers, else the prefix `imported-`.
    """

    recording: str
    is_apache_pulsar: bool

    def incarnation(self, life: str) -> str:
        return f"{OF_APACHE_PULSAR if self.is_apache_pulsar else 'imported-'}{life}-{self.recording}"


def load_reports(
    sums: WindowSums, before: Followed, hardware: Hardware, naming: Naming
) -> tuple[list[LocalBrokerData], Followed]:
    """Return the reports of all steps of a window, sorted by time and then broker, and what is known at the end of the
    window. `before` is what was known at the end of the window before.

    Raises:
        ImportRefusedError: two instances are the same broker for more than 5 steps of the window.
    """
    following = msgspec.json.decode(msgspec.json.encode(before), type=Followed)
    found: list[LocalBrokerData] = []
    alive = sums.alive()
    _name(sums, following.brokers, set().union(*alive))
    _check_targets(alive, following.brokers)
    by_row = _by_row(sums)
    for row, instances in enumerate(alive):
        at_ms = sums.window.first_ms + row * sums.window.step_ms
        if not instances:
            continue
        _note_gap(following, at_ms, sums.window)
        owned = _owned(following, by_row[row], sums, row)
        for broker, instance in _targets(instances, following, owned):
            report = _report(sums, row, instance, owned.get(instance, ()), hardware)
            started = int(sums.instances[instance].values.get(STARTED, {}).get(row, 0)) if _told(sums, instance) else 0
            incarnation, sequence = _number(following, broker, str(started), naming)
            found.append(
                msgspec.structs.replace(
                    report,
                    broker_id=broker,
                    last_update=at_ms,
                    start_timestamp=started * 1000,
                    incarnation=incarnation,
                    sequence=sequence,
                )
            )
    return found, following


def _told(sums: WindowSums, instance: str) -> bool:
    return instance in sums.instances


def _name(sums: WindowSums, brokers: dict[str, str], instances: set[str]) -> None:
    for instance in sorted(instances):
        told = sums.instances[instance].broker if _told(sums, instance) else ""
        if brokers.get(instance, instance) == instance:
            brokers[instance] = broker_id(instance, told)


def broker_id(instance: str, broker: str) -> str:
    """Return the id of the broker that is scraped at `instance`, and whose metrics have the label `broker`.

    In Barycenter's metrics the label is the id already. In Pulsar's metrics it is only the host: the port is that of
    `instance`. If the label is missing (""), the id is `instance`.
    """
    if not broker or ":" in broker:
        return broker or instance
    _, colon, port = instance.rpartition(":")
    return f"{broker}:{port}" if colon else broker


def _check_targets(alive: list[set[str]], brokers: Mapping[str, str]) -> None:
    overlapping: dict[str, int] = {}
    pairs: dict[str, list[str]] = {}
    for instances in alive:
        seen: dict[str, str] = {}
        for instance in sorted(instances):
            broker = brokers[instance]
            if seen.setdefault(broker, instance) != instance:
                overlapping[broker] = overlapping.get(broker, 0) + 1
                pairs[broker] = [seen[broker], instance]
    for broker, steps in sorted(overlapping.items()):
        if steps > _MOST_OVERLAPPING:
            raise ImportRefusedError(
                f"{' and '.join(pairs[broker])} are both {broker} for {count_of(steps, 'step')}:"
                " the broker is scraped twice;"
                " choose one with --match, such as --match job=NAME"
            )


def _by_row(sums: WindowSums) -> list[dict[str, list[str]]]:
    """Return a list with an item for each step: it maps each bundle to the instances (scrape targets) that have metrics
    of the bundle at this step, sorted.
    """
    found: list[dict[str, list[str]]] = [{} for _ in range(sums.window.steps)]
    for (instance, bundle), figures in sorted(sums.bundles.items()):
        for row, count in enumerate(figures.present):
            if count:
                found[row].setdefault(bundle, []).append(instance)
    return found


def _note_gap(following: Followed, at_ms: int, window: Window) -> None:
    last_ms, following.last_ms = following.last_ms, at_ms
    if last_ms and at_ms - last_ms > max(SILENCE_MS, window.step_ms) and len(following.gaps) < MAX_GAPS:
        following.gaps.append((last_ms, at_ms))


def _owned(
    following: Followed, told: Mapping[str, list[str]], sums: WindowSums, row: int
) -> dict[str, list[tuple[str, str]]]:
    """Return for each instance the bundles that it owns at step `row`, as keys of `sums.bundles`. `told` maps each
    bundle to the instances that have metrics of the bundle at this step. Store in `following` the instances of each
    bundle.
    """
    found: dict[str, list[tuple[str, str]]] = {}
    holders: dict[str, list[str]] = {}
    for bundle, instances in told.items():
        owner = owner_of(instances, following.holders.get(bundle, []))
        following.placed += 1
        following.overlaps += len(instances) > 1
        holders[bundle] = [owner, *(each for each in instances if each != owner)]
        found.setdefault(owner, []).append((owner, bundle))
    following.holders = holders
    return found


def owner_of(holders: list[str], before: list[str]) -> str:
    """Return which of `holders`, the instances that have metrics of a bundle at a step, owns the bundle: the first that
    was not among those of the step before, since a bundle moved to it; if there is none, the owner of the step before,
    or else the first of `holders`.

    `before` are the instances of the step before, its owner first; empty if there were none.
    """
    new = [instance for instance in holders if instance not in before]
    if new and before:
        return new[0]
    return before[0] if before and before[0] in holders else holders[0]


def _targets(
    instances: set[str], following: Followed, owned: Mapping[str, list[tuple[str, str]]]
) -> Iterator[tuple[str, str]]:
    """Yield the brokers of a step, each with its instance (scrape target). If two instances are the same broker, the
    one with more bundles is chosen.
    """
    chosen: dict[str, str] = {}
    for instance in sorted(instances, key=lambda each: (len(owned.get(each, ())), each)):
        chosen[following.brokers[instance]] = instance
    yield from sorted(chosen.items())


def _report(
    sums: WindowSums, row: int, instance: str, keys: list[tuple[str, str]] | tuple[()], hardware: Hardware
) -> LocalBrokerData:
    stats = {key[1]: _stats(sums, key, row) for key in keys}
    told = sums.instances[instance].values if _told(sums, instance) else {}
    rates = stats.values()
    report = LocalBrokerData(
        cpu=hardware.cpu(told.get(CPU, {}).get(row)),
        memory=UNKNOWN_USAGE,
        direct_memory=UNKNOWN_USAGE,
        bandwidth_in=hardware.network(told.get(NETWORK_IN, {}).get(row)),
        bandwidth_out=hardware.network(told.get(NETWORK_OUT, {}).get(row)),
        msg_rate_in=sum(each.msg_rate_in for each in rates),
        msg_rate_out=sum(each.msg_rate_out for each in rates),
        msg_throughput_in=sum(each.msg_throughput_in for each in rates),
        msg_throughput_out=sum(each.msg_throughput_out for each in rates),
        last_stats=stats,
        bundles=tuple(stats),
        num_bundles=len(stats),
        num_topics=sum(each.topics for each in rates),
        num_producers=sum(each.producer_count for each in rates),
        num_consumers=sum(each.consumer_count for each in rates),
    )
    return msgspec.structs.replace(report, max_resource_usage=max_resource_usage(report))


def _stats(sums: WindowSums, key: tuple[str, str], row: int) -> NamespaceBundleStats:
    values = sums.bundles[key].values

    def at(figure: str) -> float:
        return values[figure][row] if figure in values else 0.0

    return NamespaceBundleStats(
        msg_rate_in=at("rate_in"),
        msg_rate_out=at("rate_out"),
        msg_throughput_in=at("throughput_in"),
        msg_throughput_out=at("throughput_out"),
        producer_count=round(at("producers")),
        consumer_count=round(at("consumers")),
        topics=sums.topics(key, row),
    )


def _number(following: Followed, broker: str, life: str, naming: Naming) -> tuple[str, int]:
    if following.lives.get(broker) != life:
        following.lives[broker], following.sequences[broker] = life, 0
    following.sequences[broker] += 1
    return naming.incarnation(life), following.sequences[broker]
