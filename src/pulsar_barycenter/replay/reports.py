"""The reports of simulated brokers, and the snapshot that a leader makes of them.

A broker measures its load once in each step. Like a live broker, it reports if the load has changed enough since its
last report, or if that report is old. So two brokers may report the same bundle, until the former owner reports again;
or none may report it. A bundle that moves counts as a preallocation of its destination until the destination reports
it. Windows get one sample of each bundle from each report.

Brokers of the extensible load manager smooth their usage at every measurement, report their heaviest bundles in each
step, and restart the smoothing when a bundle comes or goes. The load of a broker and the list of its bundles are two
messages then, and each may be late, lost or doubled by itself (`replay.delivery`).

The model is coarser than a live cluster: events between two steps happen at a step.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from pulsar_barycenter.load.managers import ManagerKind
from pulsar_barycenter.load.reports.extensible_reports import BrokerLoadReportRule
from pulsar_barycenter.load.reports.load_report import (
    COUNT_RESOLUTION,
    DEFAULT_MESSAGE_RATE,
    LONG_SAMPLES,
    RATE_RESOLUTION,
    SHORT_SAMPLES,
    THROUGHPUT_RESOLUTION,
    ResourceWeights,
)
from pulsar_barycenter.load.reports.weights import extensible_resource_weights, resource_weights
from pulsar_barycenter.load.reports.windows import fold
from pulsar_barycenter.load.snapshot.load_snapshot import (
    BrokerTable,
    BundleTable,
    ExtensibleLoad,
    Flags,
    Floats,
    Indices,
    Integers,
    LoadSnapshot,
    MessageColumns,
    Preallocations,
    largest_weighted,
    raw_percent,
)
from pulsar_barycenter.replay.bundles import NOBODY, Bundles, summed
from pulsar_barycenter.replay.delivery import PERFECT, Deliveries, Delivery

if TYPE_CHECKING:
    from pulsar_barycenter.config.broker_config import BrokerConfig

NEVER: Final = -(2**53)
_UNWEIGHTED: Final = ResourceWeights(1.0, 1.0, 1.0, 1.0)


@dataclass(frozen=True, slots=True)
class Measured:
    """One measurement of all brokers at the same time; arrays have one column for each broker. `usage` and `limit` have
    one row for each of `load_report.RESOURCES`, `figures` has four: msg/s in and out, bytes/s in and out.
    """

    usage: Floats
    limit: Floats
    figures: Floats
    topics: Integers
    bundles: Integers

    def newer(self, now: "Measured", of: Flags) -> "Measured":
        """Return a copy of this measurement in which the brokers that `of` flags have their values in `now`."""
        return Measured(
            np.where(of, now.usage, self.usage),
            np.where(of, now.limit, self.limit),
            np.where(of, now.figures, self.figures),
            np.where(of, now.topics, self.topics),
            np.where(of, now.bundles, self.bundles),
        )


@dataclass(frozen=True, slots=True)
class _Lists:
    """The lists of bundles that the brokers flagged in `of` sent at `at_ms`. `owner` has the broker of each bundle in
    the cluster at that time, and `figures` the four rates of each bundle.
    """

    of: Flags
    at_ms: int
    owner: Indices
    figures: Floats

    def ordered(self, order: Integers, fresh: slice) -> "_Lists":
        """Return the lists with the rows of bundles after a split: `order` has for each new row the old one. The rows
        `fresh` are those of the parts, which are in no broker's list.
        """
        owner = self.owner[order]
        owner[fresh] = NOBODY
        return replace(self, owner=owner, figures=self.figures[:, order])


@dataclass(frozen=True, slots=True)
class _Loads:
    """The loads that the brokers flagged in `of` measured at `at_ms`. `smoothed` has their moving averages of usage and
    throughput.
    """

    of: Flags
    at_ms: int
    now: Measured
    smoothed: Floats


@dataclass(frozen=True, slots=True)
class _Sent:
    """Messages of brokers that arrive at the leader at the same time, `arrives_ms`: loads of brokers, and lists of
    their bundles.
    """

    arrives_ms: int
    loads: _Loads
    lists: _Lists


def change_percent(before: Floats, now: Floats) -> Floats:
    """Return 100 × |before - now| / |before|; infinite if only `before` is 0, and 0 if both are 0.

    The arguments are arrays; `load_report.percent_change` does the same for two numbers.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        change = 100.0 * np.abs((before - now) / before)
    return np.where(before == 0, np.where(now == 0, 0.0, np.inf), change)


class Reports:
    """What the simulated leader knows: the newest report of each broker that has arrived, and the average rates of all
    bundles that it computed from reports.
    """

    def __init__(
        self, brokers: Sequence[str], bundles: Bundles, delivery: Delivery = PERFECT, *, seed: int = 0
    ) -> None:
        count, rows = len(brokers), len(bundles)
        self._brokers = tuple(brokers)
        self._told = self._sent = Measured(
            np.zeros((5, count)),
            np.zeros((5, count)),
            np.zeros((4, count)),
            np.zeros(count, np.int64),
            np.zeros(count, np.int64),
        )
        """For each broker: `_told` has the newest of its reports that arrived at the leader, `_sent` the newest that
        the broker sent without a failure.
        """
        self._sent_at_ms: Integers = np.full(count, NEVER, np.int64)
        self._listed_at_ms: Integers = np.full(count, NEVER, np.int64)
        self._deliveries = Deliveries(delivery, seed)
        self._on_their_way: list[_Sent] = []
        self.told_at_ms: Integers = np.full(count, NEVER, np.int64)
        self.started_at_ms: Integers = np.zeros(count, np.int64)
        self._owner: Indices = np.full(rows, NOBODY, np.int32)
        self._figures: Floats = np.zeros((4, rows))
        self._windows: dict[int, tuple[Floats, Integers]] = {
            most: (np.zeros((4, rows)), np.zeros(rows, np.int64)) for most in (SHORT_SAMPLES, LONG_SAMPLES)
        }
        self._left: list[tuple[int, int, Floats]] = []
        """Bundles that are also reported by a former broker: row, that broker, and the rates that it reported."""
        self.unloaded_at_ms: Integers = np.full(rows, NEVER, np.int64)
        self._smoothed: Floats = np.zeros((2, count))
        """Usage and throughput as of `_measured_at_ms`; `_told_smoothed` has the values of the last reports."""
        self._measured_at_ms: Integers = np.zeros(count, np.int64)
        self._told_smoothed: Floats = np.zeros((2, count))
        self._changed: Flags = np.ones(count, bool)

    # ---- what changes ----

    def start(self, broker: int, now_ms: int) -> None:
        """Record that a broker starts at `now_ms`. What is known from reports of its earlier run is dropped."""
        self.forget(broker)
        self.started_at_ms[broker] = now_ms

    def forget(self, broker: int) -> None:
        """Drop all reports of a broker that left, including those that it sent but that have not arrived yet."""
        self.told_at_ms[broker] = self._sent_at_ms[broker] = self._listed_at_ms[broker] = NEVER
        others = np.arange(len(self._brokers)) != broker
        self._on_their_way = [
            replace(
                sent,
                loads=replace(sent.loads, of=sent.loads.of & others),
                lists=replace(sent.lists, of=sent.lists.of & others),
            )
            for sent in self._on_their_way
        ]
        self._changed[broker] = True
        self._owner = np.where(self._owner == broker, NOBODY, self._owner).astype(np.int32)
        self._left = [each for each in self._left if each[1] != broker]

    def moved(self, source: int, destination: int) -> None:
        """Record that a bundle moved from the broker `source` to the broker `destination` (row numbers; NOBODY: no
        broker). With the extensible load manager, both brokers then report at their next measurement.
        """
        for broker in (source, destination):
            if broker != NOBODY:
                self._changed[broker] = True

    def split(self, row: int, parts: int) -> None:
        """Record that the bundle in the row `row` was split into `parts` bundles, which have this row and the next
        ones. No broker has reported them yet, and they have no averages.
        """
        keep = [*range(row), *([row] * parts), *range(row + 1, len(self._owner))]
        order, fresh = np.array(keep, np.int64), slice(row, row + parts)
        self._owner = self._owner[order]
        self._owner[fresh] = NOBODY
        self._figures = self._figures[:, order]
        self.unloaded_at_ms = self.unloaded_at_ms[order]
        self.unloaded_at_ms[fresh] = NEVER
        for most, (average, samples) in self._windows.items():
            cleared = samples[order]
            cleared[fresh] = 0
            self._windows[most] = (average[:, order], cleared)
        self._left = [
            (at + parts - 1 if at > row else at, broker, figures) for at, broker, figures in self._left if at != row
        ]
        self._on_their_way = [replace(sent, lists=sent.lists.ordered(order, fresh)) for sent in self._on_their_way]

    # ---- reports ----

    def measure(
        self, now: Measured, bundles: Bundles, able: Flags, config: "BrokerConfig", now_ms: int, kind: ManagerKind
    ) -> Flags:
        """Let brokers send the reports that are due, and let reports arrive at the leader. `now` has the present load
        of all brokers, and `able` flags those that can report. Return the flags of the brokers whose report was due,
        even if it was lost or failed.
        """
        if kind is ManagerKind.EXTENSIBLE:
            self._smooth(now, able, config, now_ms)
        due = able & self._is_due(now, config, now_ms, kind)
        if kind is ManagerKind.EXTENSIBLE:
            due |= able & self._changed  # its smoothed load was reset when a bundle came or left
        self._arrive(now_ms)
        failed = self._send(now, bundles, due, able if kind is ManagerKind.EXTENSIBLE else due, now_ms, kind)
        sent = due & ~failed
        self._sent, self._sent_at_ms = self._sent.newer(now, sent), np.where(sent, now_ms, self._sent_at_ms)
        self._changed &= ~able | failed
        return due

    def _arrive(self, now_ms: int) -> None:
        """Process the messages that arrive at `now_ms` or before, in the order of their arrival."""
        for sent in sorted(self._on_their_way, key=lambda sent: sent.arrives_ms):
            if sent.arrives_ms <= now_ms:
                self._take(sent)
        self._on_their_way = [sent for sent in self._on_their_way if sent.arrives_ms > now_ms]

    def _send(
        self, now: Measured, bundles: Bundles, due: Flags, listing: Flags, now_ms: int, kind: ManagerKind
    ) -> Flags:
        """Send the loads of the brokers in `due`, and the lists of bundles of the brokers in `listing`. With the
        extensible load manager, these are two messages, each of which may be late or lost by itself; otherwise they are
        one report.

        Return the flags of the brokers whose sending of the load failed. Only this fault is noticed by the broker.
        """
        of_loads = self._deliveries.of(due)
        of_lists = self._deliveries.of(listing) if kind is ManagerKind.EXTENSIBLE else of_loads
        loads = _Loads(of_loads.at_once, now_ms, now, self._smoothed)
        lists = _Lists(of_lists.at_once, now_ms, bundles.owner, bundles.figures)
        self._take(_Sent(now_ms, loads, lists))
        for late_ms in np.unique(np.concatenate((of_loads.late_ms, of_lists.late_ms))).tolist():
            if late_ms:
                late_loads = replace(loads, of=of_loads.late_ms == late_ms)
                late_lists = replace(lists, of=of_lists.late_ms == late_ms, owner=bundles.owner.copy())
                self._on_their_way.append(_Sent(now_ms + late_ms, late_loads, late_lists))
        return of_loads.failed

    def _is_due(self, now: Measured, config: "BrokerConfig", now_ms: int, kind: ManagerKind) -> Flags:
        told, rule = self._sent, BrokerLoadReportRule.of(config)
        weights = _UNWEIGHTED if kind is ManagerKind.EXTENSIBLE else resource_weights(config)
        before, after = (largest_weighted(raw_percent(each.usage, each.limit), weights) for each in (told, now))
        changes = np.array(
            [
                change_percent(told.figures[0] + told.figures[1], now.figures[0] + now.figures[1]),
                change_percent(told.figures[2] + told.figures[3], now.figures[2] + now.figures[3]),
                change_percent(told.bundles.astype(float), now.bundles.astype(float)),
                100.0 * np.abs(before - after),
            ]
        )
        old = now_ms - self._sent_at_ms > rule.max_interval_ms
        found: Flags = old | (changes.max(axis=0) > rule.threshold_percent)
        return found

    def _smooth(self, now: Measured, able: Flags, config: "BrokerConfig", now_ms: int) -> None:
        """Update the moving averages of usage and throughput of the brokers in `able`. A broker measures several times
        in a step; all these measurements have the same value, because load is constant within a step. After a bundle
        came or left, the average restarts with the present value.
        """
        weights = extensible_resource_weights(config)
        percent = raw_percent(now.usage, now.limit)
        usage = (percent * np.array(weights, float)[:, None]).max(axis=0) / 100
        sample = np.array([usage, now.figures[2] + now.figures[3]])
        passed_ms = now_ms - self._measured_at_ms
        times = np.maximum(1, passed_ms // max(1, int(config.load_balancer_report_update_min_interval_millis)))
        weight = config.load_balancer_history_resource_percentage ** times.astype(float)
        weight = np.where(self._changed, 0.0, weight)
        self._smoothed = np.where(able, self._smoothed * weight + (1 - weight) * sample, self._smoothed)
        self._measured_at_ms = np.where(able, now_ms, self._measured_at_ms)

    def _take(self, sent: _Sent) -> None:
        """Update what the leader knows with received messages. The load and the list of a broker replace the known
        ones, unless the known ones were sent later.
        """
        loads = replace(sent.loads, of=sent.loads.of & (sent.loads.at_ms >= self.told_at_ms))
        lists = replace(sent.lists, of=sent.lists.of & (sent.lists.at_ms >= self._listed_at_ms))
        if loads.of.any():
            self._told = self._told.newer(loads.now, loads.of)
            self.told_at_ms = np.where(loads.of, loads.at_ms, self.told_at_ms)
            self._told_smoothed = np.where(loads.of, loads.smoothed, self._told_smoothed)
            self._sample(lists, loads.of)
        if lists.of.any():
            self._list(lists)

    def _sample(self, lists: _Lists, tellers: Flags) -> None:
        """Add a sample to the averages of each bundle that is in the list of a broker which `tellers` flags. The sample
        has the bundle's rates in `lists`.
        """
        rows = np.flatnonzero((lists.owner != NOBODY) & tellers[lists.owner])
        for most, (average, samples) in self._windows.items():
            averages, counts = average.copy(), samples.copy()
            averages[:, rows], counts[rows] = fold(average[:, rows], samples[rows], lists.figures[:, rows], most)
            self._windows[most] = (averages, counts)

    def _list(self, lists: _Lists) -> None:
        """Update which bundles each broker has and their rates, as far as the leader knows, with the received `lists`.
        A bundle that another broker listed before remains in both lists, until that broker sends a new list.
        """
        tellers, owner, known = lists.of, lists.owner, self._owner.copy()
        self._listed_at_ms = np.where(tellers, lists.at_ms, self._listed_at_ms)
        known[(known != NOBODY) & tellers[known] & (known != owner)] = NOBODY
        self._left = [each for each in self._left if not tellers[each[1]]]
        rows = (owner != NOBODY) & tellers[owner]
        for row in np.flatnonzero(rows & (known != owner) & (known != NOBODY)).tolist():
            self._left.append((row, int(known[row]), self._figures[:, row]))
        known[rows] = owner[rows]
        self._owner = known
        self._figures = np.where(rows, lists.figures, self._figures)

    # ---- the snapshot ----

    def snapshot(
        self, bundles: Bundles, live: Flags, config: "BrokerConfig", now_ms: int, kind: ManagerKind
    ) -> LoadSnapshot:
        """Return the snapshot of the leader: the brokers in the cluster of which a report has arrived, and the bundles
        that they reported. With the extensible load manager, all bundles that these brokers own are in it.
        """
        known = live & (self.told_at_ms != NEVER)
        place = (np.cumsum(known) - 1).astype(np.int32)
        unloaded = self._unloaded(config, now_ms)
        if kind is ManagerKind.EXTENSIBLE:
            return self._extensible(bundles, known, place, config, unloaded, now_ms)
        rows = np.flatnonzero((self._owner != NOBODY) & known[self._owner])
        owners, figures = self._owner[rows], self._figures[:, rows]
        left = [each for each in self._left if known[each[1]]]
        if left:
            rows = np.concatenate((rows, np.array([row for row, _, _ in left], np.int64)))
            owners = np.concatenate((owners, np.array([broker for _, broker, _ in left], np.int32)))
            figures = np.concatenate((figures, np.array([each for _, _, each in left]).T), axis=1)
            order = np.lexsort((owners, rows))
            rows, owners, figures = rows[order], owners[order], figures[:, order]
        table = self._bundle_table(bundles, rows, place[owners], figures, unloaded)
        brokers = int(known.sum())
        averages = [
            MessageColumns(
                *(
                    summed(table.owner, each, brokers)
                    for each in (window.rate_in, window.rate_out, window.throughput_in, window.throughput_out)
                )
            )
            for window in (table.short, table.long)
        ]
        listed = np.bincount(table.owner, minlength=brokers)
        found = LoadSnapshot(
            self._broker_table(known, kind, averages[0], averages[1], listed),
            table,
            bundles.namespaces,
            taken_at_ms=now_ms,
        )
        return self._with_preallocations(found, bundles, known, place)

    def _unloaded(self, config: "BrokerConfig", now_ms: int) -> Flags:
        grace_ms = config.load_balancer_shedding_grace_period_minutes * 60_000
        found: Flags = self.unloaded_at_ms >= now_ms - grace_ms
        return found

    def _broker_table(
        self, known: Flags, kind: ManagerKind, short: MessageColumns, long: MessageColumns, bundles: Integers
    ) -> BrokerTable:
        told, count = self._told, int(known.sum())
        every = np.ones(count, bool)
        return BrokerTable(
            names=tuple(name for name, is_known in zip(self._brokers, known.tolist(), strict=True) if is_known),
            usage=told.usage[:, known],
            limit=told.limit[:, known],
            latest=MessageColumns(*told.figures[:, known]),
            short=short,
            long=long,
            topics=told.topics[known],
            bundle_count=bundles,
            versions=(None,) * count,
            class_names=(kind.class_name,) * count,
            persistent=every,
            non_persistent=every,
            started_at_ms=self.started_at_ms[known],
            reported_at_ms=self.told_at_ms[known],
            suspect=~every,
        )

    def _bundle_table(
        self, bundles: Bundles, rows: Integers, owners: Indices, figures: Floats, unloaded: Flags
    ) -> BundleTable:
        every, is_whole = np.ones(len(rows), bool), len(rows) == len(bundles)
        short, long = (
            (MessageColumns(*average[:, rows]), samples[rows]) for average, samples in self._windows.values()
        )
        names = bundles.names
        return BundleTable(
            names=names if is_whole and not self._left else [names[row] for row in rows.tolist()],
            owner=owners,
            namespace=bundles.namespace[rows],
            latest=MessageColumns(*figures),
            topics=bundles.topics[rows],
            sessions=bundles.sessions[rows],
            short=short[0],
            long=long[0],
            short_samples=short[1],
            long_samples=long[1],
            listed=every,
            sampled=every,
            has_windows=short[1] > 0,
            broker_bound=~every,
            recently_unloaded=unloaded[rows],
            suspect=~every,
        )

    def _with_preallocations(self, found: LoadSnapshot, bundles: Bundles, known: Flags, place: Indices) -> LoadSnapshot:
        """Return the snapshot `found` with a preallocation for each bundle that its owner has not reported yet: the
        expected load of the bundle is added to its owner. `known` flags the brokers that are in the snapshot, and
        `place` has the row of each of them there.
        """
        waiting = np.flatnonzero((bundles.owner != self._owner) & (bundles.owner != NOBODY) & known[bundles.owner])
        if not len(waiting):
            return found
        brokers = place[bundles.owner[waiting]]
        average, samples = self._windows[LONG_SAMPLES]
        rate = np.where(samples[waiting] > 0, average[0, waiting] + average[1, waiting], 2 * DEFAULT_MESSAGE_RATE)
        count = len(found.brokers)
        pairs = [(broker, bundles.names[row]) for broker, row in zip(brokers.tolist(), waiting.tolist(), strict=True)]
        topics = summed(brokers, bundles.topics[waiting], count).astype(np.int64)
        preallocated = Preallocations.of(summed(brokers, rate, count), topics, pairs, found.bundles)
        return replace(found, preallocations=preallocated)

    def _extensible(
        self, bundles: Bundles, known: Flags, place: Indices, config: "BrokerConfig", unloaded: Flags, now_ms: int
    ) -> LoadSnapshot:
        """Return the leader's snapshot for the extensible load manager. Bundles that are in the received lists of
        brokers have their rates; all other owned bundles are in it without rates.
        """
        most = config.load_balancer_max_number_of_bundles_in_bundle_load_report
        top = self._top(bundles, most)
        listed = (self._owner != NOBODY) & known[self._owner] & (top >= 0)
        owned = (bundles.owner != NOBODY) & known[bundles.owner]
        rows = np.concatenate(
            (np.flatnonzero(listed), np.flatnonzero(owned & ~(listed & (self._owner == bundles.owner))))
        )
        split_at = int(listed.sum())
        owners = np.concatenate((self._owner[rows[:split_at]], bundles.owner[rows[split_at:]]))
        in_list = np.arange(len(rows)) < split_at
        order = np.lexsort((owners, rows))
        rows, owners, in_list = rows[order], owners[order], in_list[order]
        figures = np.where(in_list, self._figures[:, rows], 0.0)
        table = self._bundle_table(bundles, rows, place[owners], figures, unloaded)
        latest = table.latest
        none = np.zeros(len(rows), np.int64)
        table = replace(
            table,
            short=latest,
            long=latest,
            short_samples=none,
            long_samples=none,
            topics=np.where(in_list, table.topics, 0),
            sessions=np.where(in_list, table.sessions, 0),
            sampled=in_list,
            has_windows=in_list,
        )
        newest = MessageColumns(*self._told.figures[:, known])
        brokers = self._broker_table(known, ManagerKind.EXTENSIBLE, newest, newest, self._told.bundles[known])
        everyone = np.ones(len(brokers), bool)
        percent = raw_percent(self._told.usage, self._told.limit)
        load = ExtensibleLoad(
            weighted_max_ema=self._told_smoothed[0, known],
            throughput_ema=self._told_smoothed[1, known],
            max_usage=largest_weighted(percent, _UNWEIGHTED)[known],
            updated_at_ms=self.told_at_ms[known],
            has_load=everyone,
            live=everyone,
            top=np.where(in_list, top[rows], -1),
            owned=bundles.owner[rows] == owners,
        )
        return LoadSnapshot(brokers, table, bundles.namespaces, extensible=load, taken_at_ms=now_ms)

    def _top(self, bundles: Bundles, most: int) -> Integers:
        """Return the position of each bundle in the received list of its broker: 0 for the least loaded bundle in the
        list, -1 if the bundle is not in a list. A list has the `most` most loaded bundles of a broker (all if `most` is
        negative).

        Bundles are compared as by `stats_rank`. Of two equal bundles, the one with the smaller name counts as more
        loaded. Does for all brokers what `TopBundlesLoadData.of` does for one.
        """
        rate_in, rate_out, bytes_in, bytes_out = self._figures
        moving = (self._owner != NOBODY) & (bytes_in + bytes_out > 0)
        rows = np.flatnonzero(moving)
        rank = [
            np.floor(each[rows] + 0.5)
            for each in (
                bytes_in / THROUGHPUT_RESOLUTION,
                bytes_out / THROUGHPUT_RESOLUTION,
                (rate_in + rate_out) / RATE_RESOLUTION,
            )
        ]
        rank.append(np.trunc((bundles.topics + bundles.sessions)[rows] / COUNT_RESOLUTION))
        order = rows[np.lexsort((rows, -rank[3], -rank[2], -rank[1], -rank[0], self._owner[rows]))]
        owners = self._owner[order]
        first = np.searchsorted(owners, owners, side="left")
        place = np.arange(len(order)) - first
        count = np.searchsorted(owners, owners, side="right") - first
        length = count if most < 0 else np.minimum(count, most)
        top = np.full(len(self._owner), -1, np.int64)
        top[order] = np.where(place < length, length - 1 - place, -1)
        return top

    def own(self, bundles: Bundles, live: Flags, config: "BrokerConfig", now_ms: int) -> LoadSnapshot:
        """Return a snapshot with the present rates of all owned bundles. Each broker of the extensible load manager
        knows those of its own bundles, and decides by them which bundles to split.
        """
        known = live & (self.told_at_ms != NEVER)
        place = (np.cumsum(known) - 1).astype(np.int32)
        rows = np.flatnonzero((bundles.owner != NOBODY) & known[bundles.owner])
        table = self._bundle_table(
            bundles, rows, place[bundles.owner[rows]], bundles.figures[:, rows], self._unloaded(config, now_ms)
        )
        newest = MessageColumns(*self._told.figures[:, known])
        brokers = self._broker_table(known, ManagerKind.EXTENSIBLE, newest, newest, self._told.bundles[known])
        return LoadSnapshot(brokers, table, bundles.namespaces, taken_at_ms=now_ms)
