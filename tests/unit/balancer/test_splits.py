"""Which bundles a round splits, and why others that are too large stay whole."""

import pytest

from pulsar_barycenter.balancer.judging.caps import Room
from pulsar_barycenter.balancer.judging.load_view import Facts, LoadView, document_of
from pulsar_barycenter.balancer.judging.needs import needed, with_load
from pulsar_barycenter.balancer.judging.splits import DecidedSplits, decide_splits, immovable, split_room
from pulsar_barycenter.balancer.judging.watchdog import Cause, Observed, Watch, Watched, watched
from pulsar_barycenter.balancer.options import HOUR_MS, MINUTE_MS, Caps, Mode, SplitWhen, Wanted, WatchLimits
from pulsar_barycenter.load.reports.load_report import LocalBrokerData, NamespaceBundleStats, ResourceUsage
from pulsar_barycenter.load.sizing import SizingRule
from pulsar_barycenter.operations.own_balancing import SHEDDING, SPLITTING
from pulsar_barycenter.operations.splitting import SplitEntry, SplitState
from pulsar_barycenter.snapshots.decided_by import configuration_of

A, B = "a:1", "b:1"
HOT = [f"t/{name}/0x00000000_0xffffffff" for name in ("n1", "n2", "n3")]
SMALL = "t/n4/0x00000000_0xffffffff"
BOUND = "pulsar/a:1/0x00000000_0xffffffff"
CONFIG = configuration_of({"loadBalancerNamespaceBundleMaxTopics": "10", "loadBalancerNamespaceMaximumBundles": "4"})
NOW_MS = 10 * HOUR_MS


def report(broker: str, *bundles: str) -> LocalBrokerData:
    return LocalBrokerData(
        broker_id=broker,
        cpu=ResourceUsage(40.0, 400.0),
        last_stats={bundle: NamespaceBundleStats(topics=2 if bundle == SMALL else 20) for bundle in bundles},
        bundles=bundles,
        last_update=NOW_MS,
        sequence=1,
        incarnation="i",
    )


def decided(
    *entries: SplitEntry,
    per_hour: int = 2,
    counts: dict[str, int] | None = None,
    unreadable: dict[str, str] | None = None,
    brokers: tuple[str, ...] = (A, B),
) -> DecidedSplits:
    view = LoadView()
    view.append(report(A, *HOT, SMALL, BOUND))
    view.append(report(B))
    facts = Facts(brokers=brokers, taken_at_ms=NOW_MS)
    snapshot = document_of(view.reports, view.bundles, facts).snapshot()
    return decide_splits(snapshot, CONFIG, counts or {}, split_room(entries, per_hour, now_ms=NOW_MS), unreadable or {})


def entry(bundle: str, minutes_ago: int, state: SplitState = SplitState.BEGUN) -> SplitEntry:
    return SplitEntry(at=NOW_MS - minutes_ago * MINUTE_MS, by="x", bundle=bundle, broker=A, state=state)


def test_bundles_above_the_clusters_limits_are_split_as_far_as_the_hour_has_room() -> None:
    found = decided()
    assert [(split.bundle, split.broker) for split in found.splits] == [(HOT[0], A), (HOT[1], A)]
    assert "topics 20 > limit 10" in found.splits[0].sentence
    assert found.namespaces() == {"t/n1", "t/n2"}
    assert found.whole.pop(HOT[2]) == "2 splits within the hour, and --splits-per-hour is 2"
    assert SMALL not in found.whole


def test_what_was_tried_within_the_hour_waits_and_takes_room() -> None:
    found = decided(entry(HOT[0], 59), entry(HOT[0], 59, SplitState.FAILED), entry(HOT[1], 60))
    assert [split.bundle for split in found.splits] == [HOT[1]]
    assert found.whole[HOT[0]] == "its split was tried within the hour"


def test_a_full_namespace_and_one_that_cannot_be_counted_stay_whole() -> None:
    found = decided(counts={"t/n1": 4}, unreadable={"t/n2": "404: deleted"})
    assert [split.bundle for split in found.splits] == [HOT[2]]
    assert found.whole[HOT[1]] == "404: deleted"
    assert "loadBalancerNamespaceMaximumBundles" in found.whole[HOT[0]]


def test_one_broker_splits_nothing_as_a_leader_does() -> None:
    assert decided(brokers=(A,)) == DecidedSplits()


def test_a_bundle_that_is_split_or_was_lately_does_not_move() -> None:
    entries = (
        entry(HOT[1], 9),
        entry(HOT[1], 9, SplitState.SPLIT),
        entry(HOT[2], 9),
        entry(SMALL, 9, SplitState.FAILED),
    )
    staying = immovable(decided(per_hour=1).splits, entries)
    room = Room(Caps(), (), now_ms=NOW_MS, round_ms=MINUTE_MS, staying=staying)
    assert [room.take(bundle, 1.0) for bundle in (*HOT, SMALL)] == [False, False, False, True]
    assert room.refused == {HOT[0]: "it is split in this round", HOT[1]: "it was split", HOT[2]: "it was split"}


@pytest.mark.parametrize(
    ("when", "mode", "own", "splits", "off"),
    [
        (SplitWhen.AUTO, Mode.ACT, True, True, (SHEDDING, SPLITTING)),
        (SplitWhen.AUTO, Mode.ACT, False, False, (SHEDDING,)),
        (SplitWhen.AUTO, Mode.OBSERVE, True, True, ()),
        (SplitWhen.AUTO, Mode.ADVISE, True, False, ()),
        (SplitWhen.ALWAYS, Mode.ACT, False, True, (SHEDDING, SPLITTING)),
        (SplitWhen.NEVER, Mode.ACT, True, False, (SHEDDING,)),
    ],
)
def test_splitting_is_taken_over_where_this_program_splits(
    when: SplitWhen, mode: Mode, own: bool, splits: bool, off: tuple[str, ...], tmp_path: object
) -> None:
    wanted = Wanted(urls=(), state=tmp_path, mode=mode, split=when)  # type: ignore[arg-type]
    assert when.splits(mode, own=own) is splits
    assert wanted.takes_over(own_splits=own) == off


def test_a_persons_switch_of_splitting_hands_back_at_once() -> None:
    seen = Observed(at_ms=NOW_MS, oldest_ms=NOW_MS, splits=True)
    found = watched(Watch(), seen, WatchLimits(report_interval_ms=MINUTE_MS))
    assert (found.state, list(found.reasons)) == (Watched.HANDED_BACK, [Cause.SPLITTING_ON])


def test_the_brokers_that_are_needed_follow_the_load_and_the_peak_of_the_coming_hour_a_week_ago() -> None:
    rule, now_ms = SizingRule(head_room=0.5), 200 * 168 * HOUR_MS
    next_hour = now_ms // HOUR_MS + 1
    peaks = {next_hour - 168: 4.0, next_hour - 3 * 168: 99.0}
    peaks = with_load(peaks, 1.0, now_ms)
    assert peaks == {next_hour - 168: 4.0, next_hour - 1: 1.0}
    assert with_load(peaks, 0.5, now_ms) == peaks
    text = needed({A: 0.6, B: 0.4}, peaks, rule, now_ms)
    assert 'barycenter_balance_brokers_needed{when="now"} 2\n' in text
    assert 'barycenter_balance_brokers_needed{when="next_hour"} 8\n' in text
