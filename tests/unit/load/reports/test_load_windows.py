"""The windows: one recurrence, one closed form, each report counted once."""

from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsar_barycenter.load.reports.load_report import (
    LONG_SAMPLES,
    SHORT_SAMPLES,
    BundleData,
    LocalBrokerData,
    NamespaceBundleStats,
    TimeAverageMessageData,
    default_bundle_data,
    with_stats,
)
from pulsar_barycenter.load.reports.windows import (
    HISTORY_GAP_MS,
    INCARNATIONS,
    LiveFold,
    broker_averages,
    fold,
    fold_bundle,
    fold_window,
)

BUNDLE = "t/n/0x00000000_0xffffffff"


def report(
    rate: float, sequence: int, *, incarnation: str = "i", at_ms: int = 0, bundle: str = BUNDLE
) -> LocalBrokerData:
    stats = {bundle: NamespaceBundleStats(msg_rate_in=rate, topics=sequence)}
    return with_stats(
        LocalBrokerData(incarnation=incarnation, sequence=sequence, last_update=at_ms or sequence * 1000), stats
    )


def test_the_first_sample_replaces_what_was_there() -> None:
    after = fold_bundle(default_bundle_data(), NamespaceBundleStats(msg_rate_in=3, topics=4))
    assert (after.short_term_data.msg_rate_in, after.short_term_data.num_samples, after.topics) == (3, 1, 4)
    assert after.long_term_data.msg_throughput_out == 0


def test_a_window_is_a_mean_until_it_is_full_and_then_forgets() -> None:
    average, n = 0.0, 0
    for sample in range(1, 11):
        average, n = fold(average, n, float(sample), 10)
    assert (average, n) == (pytest.approx(5.5), 10)
    average, n = fold(average, n, 105.5, 10)
    assert (average, n) == (pytest.approx(5.5 + 10), 10)


def test_columns_fold_like_scalars() -> None:
    averages, counts = np.array([0.0, 2.0, 7.0]), np.array([0, 4, 10])
    samples = np.array([5.0, 12.0, 17.0])
    folded, now = fold(averages, counts, samples, 10)
    alone = [fold(a, int(n), x, 10) for a, n, x in zip(averages.tolist(), counts, samples.tolist(), strict=True)]
    assert list(zip(folded.tolist(), now.tolist(), strict=True)) == alone


def test_counts_out_of_range_are_bounded() -> None:
    odd = TimeAverageMessageData(max_samples=10, num_samples=99, msg_rate_in=10)
    assert fold_window(odd, NamespaceBundleStats(msg_rate_in=20)).num_samples == 10
    empty = TimeAverageMessageData(max_samples=0, num_samples=-5, msg_rate_in=10)
    assert fold_window(empty, NamespaceBundleStats(msg_rate_in=20)).msg_rate_in == 20


def test_a_report_counts_once_however_often_it_is_seen() -> None:
    live = LiveFold()
    assert live.accept("b", report(10, 1))
    assert not live.accept("b", report(10, 1))
    assert live.accept("b", report(20, 2))
    assert not live.accept("b", report(10, 1))
    window = live.bundles[BUNDLE].short_term_data
    assert (window.num_samples, window.msg_rate_in, live.bundles[BUNDLE].topics) == (2, 15, 2)


def test_a_restarted_broker_numbers_anew() -> None:
    live = LiveFold()
    live.accept("b", report(10, 5))
    restarted = report(30, 1, incarnation="j", at_ms=9000)
    assert live.accept("b", restarted)
    assert live.bundles[BUNDLE].long_term_data.num_samples == 2


def test_reports_without_numbers_differ_in_their_time() -> None:
    live = LiveFold()
    first = report(10, 0, incarnation="", at_ms=1000)
    assert live.accept("b", first)
    assert not live.accept("b", first)
    assert live.accept("b", report(10, 0, incarnation="", at_ms=2000))


def test_a_bundle_keeps_its_history_over_a_move_and_loses_it_after_a_long_silence() -> None:
    live = LiveFold()
    live.accept("a", report(10, 1, at_ms=1000))
    live.accept("a", report(0, 2, at_ms=2000, bundle="t/n/other"))
    assert live.retain({"a"}, 3000) == []
    live.accept("b", report(30, 1, at_ms=4000))
    assert live.bundles[BUNDLE].short_term_data.msg_rate_in == 20
    live.accept("b", report(0, 2, at_ms=5000, bundle="t/n/third"))
    late_ms = 4000 + HISTORY_GAP_MS + 1
    live.accept("b", report(7, 3, at_ms=late_ms))
    assert live.bundles[BUNDLE].short_term_data.msg_rate_in == 7
    assert live.retain({"b"}, late_ms + 1000) == ["t/n/other", "t/n/third"]


def test_a_broker_that_left_is_forgotten_and_its_last_report_is_not_counted_again() -> None:
    live = LiveFold()
    live.accept("a", report(10, 1))
    live.retain(set(), 1000)
    assert not live.reports
    assert not live.accept("a", report(10, 1))


def test_a_broker_that_comes_back_with_its_last_report_stands_there_again_and_that_counts_once() -> None:
    live = LiveFold()
    live.accept("b", report(10, 1))
    counted = dict(live.bundles)
    live.retain([], 1)
    assert not live.accept("b", report(10, 1))
    assert live.reports == {"b": report(10, 1)}
    assert live.bundles == counted


def test_prior_data_is_continued() -> None:
    live = LiveFold()
    prior = default_bundle_data()
    for _ in range(3):
        prior = fold_bundle(prior, NamespaceBundleStats(msg_rate_in=10))
    assert live.unknown(report(50, 1)) == [BUNDLE]
    live.remember(BUNDLE, prior, 0)
    live.accept("b", report(50, 1))
    assert live.bundles[BUNDLE].short_term_data.msg_rate_in == 20
    assert live.bundles[BUNDLE].long_term_data.num_samples == 4


def test_broker_averages_are_sums_of_windows_and_unknown_bundles_count_by_default() -> None:
    data = {BUNDLE: fold_bundle(default_bundle_data(), NamespaceBundleStats(msg_rate_in=10, msg_throughput_out=7))}
    sums = broker_averages([BUNDLE, "t/n/unknown"], data)
    assert (sums.long_term_msg_rate_in, sums.short_term_msg_throughput_out) == (60, 50_007)


def test_the_window_sizes_are_those_of_pulsar() -> None:
    data = default_bundle_data()
    assert (
        (data.short_term_data.max_samples, data.long_term_data.max_samples)
        == (SHORT_SAMPLES, LONG_SAMPLES)
        == (10, 1000)
    )


NAMES = ("t/n/0", "t/n/1", "t/n/2")
HOURS = st.integers(0, 40).map(lambda tenths: tenths * HISTORY_GAP_MS // 10)


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("reports"), st.sampled_from("ab"), st.frozensets(st.sampled_from(NAMES)), HOURS),
            st.tuples(st.just("leaves"), st.sampled_from("ab")),
            st.tuples(st.just("is forgotten"), st.sampled_from(NAMES)),
            st.tuples(st.just("is remembered"), st.sampled_from(NAMES), HOURS),
            st.tuples(st.just("is late"), st.integers(1, HISTORY_GAP_MS)),
        ),
        max_size=25,
    )
)
@settings(max_examples=300)
def test_what_nobody_reports_any_more_is_forgotten_on_time_whatever_the_brokers_clocks_say(events: list[Any]) -> None:
    """Times of reports differ by up to four hours from the clock of the fold."""
    live, brokers, now_ms, newest = LiveFold(), set[str](), 2 * HISTORY_GAP_MS, dict[str, int]()
    for sequence, event in enumerate(events, 1):
        match event:
            case ("reports", broker, names, at_ms):
                stats = {name: NamespaceBundleStats(msg_rate_in=1) for name in names}
                live.accept(broker, with_stats(LocalBrokerData(sequence=sequence, last_update=at_ms), stats))
                brokers.add(broker)
                newest |= {name: max(at_ms, newest.get(name, 0)) for name in names}
            case ("leaves", broker):
                brokers.discard(broker)
            case ("is forgotten", name):
                live.forget(name)
                newest.pop(name, None)
            case ("is remembered", name, at_ms):
                live.remember(name, default_bundle_data(), at_ms)
                newest.setdefault(name, at_ms)
            case ("is late", milliseconds):
                now_ms += milliseconds
        dropped = live.retain(brokers, now_ms)
        reported = {name for broker in brokers for name in live.reports[broker].last_stats}
        assert dropped == sorted(
            name for name, at_ms in newest.items() if now_ms - at_ms > HISTORY_GAP_MS and name not in reported
        )
        for name in dropped:
            del newest[name]
        assert live.bundles.keys() == newest.keys()


def test_a_silent_bundle_is_forgotten_on_time_however_often_was_looked_before() -> None:
    """Also one that was remembered as of an earlier time than any other, after a look that found none."""
    live = LiveFold()
    live.accept("a", report(10, 1, at_ms=HISTORY_GAP_MS))
    assert live.retain({"a"}, HISTORY_GAP_MS + 5) == []
    live.remember("t/n/old", default_bundle_data(), 10)
    live.accept("a", report(10, 2, at_ms=HISTORY_GAP_MS + 6))
    assert [live.retain({"a"}, HISTORY_GAP_MS + at) for at in (10, 11, 12)] == [[], ["t/n/old"], []]
    live.accept("a", report(10, 3, at_ms=HISTORY_GAP_MS + 20, bundle="t/n/other"))
    assert [live.retain({"a"}, 2 * HISTORY_GAP_MS + at) for at in (6, 7, 30)] == [[], [BUNDLE], []]


def test_incarnations_that_take_turns_count_each_report_once() -> None:
    """Two processes may report under one id for a while; no order in which both are seen counts one twice."""
    live = LiveFold()
    accepted = [
        live.accept("b", report(10, sequence, incarnation=incarnation, at_ms=1000 * at))
        for at, (incarnation, sequence) in enumerate((("i", 1), ("j", 1), ("i", 1), ("j", 1), ("i", 2), ("j", 1)), 1)
    ]
    assert accepted == [True, True, False, False, True, False]
    assert live.bundles[BUNDLE].long_term_data.num_samples == 3


def test_of_many_starts_the_newest_are_remembered() -> None:
    live = LiveFold()
    for number in range(5 * INCARNATIONS):
        assert live.accept("b", report(10, 1, incarnation=f"i{number}", at_ms=1000 + number))
        assert not live.accept("b", report(10, 1, incarnation=f"i{max(0, number - 1)}", at_ms=1000 + number))
    assert len(live._seen["b"]) == INCARNATIONS


@pytest.mark.parametrize("stored", [1e306, 1.7e308, -1e308])
def test_no_average_becomes_infinite_and_each_recovers(stored: float) -> None:
    live = LiveFold()
    window = TimeAverageMessageData(
        max_samples=10,
        num_samples=10,
        msg_throughput_in=stored,
        msg_throughput_out=5.0,
        msg_rate_in=stored,
        msg_rate_out=stored,
    )
    longer = msgspec.structs.replace(window, max_samples=1000, num_samples=1000)
    live.remember(BUNDLE, BundleData(short_term_data=window, long_term_data=longer), 0)
    for sequence in range(1, 21):
        live.accept("b", report(stored if sequence < 5 else 10.0, sequence))
        data = live.bundles[BUNDLE]
        for each in (data.short_term_data, data.long_term_data):
            assert np.isfinite([each.msg_rate_in, each.msg_rate_out, each.msg_throughput_in]).all()
    assert data.short_term_data.msg_throughput_out < 5.0, "the figures beside it are folded as ever"
    assert abs(data.short_term_data.msg_rate_in) < 0.9 * abs(stored)
