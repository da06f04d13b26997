"""Stats of writes: by size, by time, by interval; and which appends are timed."""

from pulsar_barycenter.ledger.managed.stats import NOTHING_WRITTEN, WriteStats

HALF_MS, ONE_MS, FIVE_MS = 0, 1, 2
"""Buckets of time."""


def append(stats: WriteStats, now_s: float, ahead: int) -> bool:
    """Append as the appender does; return whether it is timed."""
    if not stats.times_next:
        return False
    stats.begin_timing(now_s, ahead)
    return True


def test_one_append_at_a_time_is_timed_and_all_that_is_durable_by_then_counts_with_its_time() -> None:
    stats = WriteStats()
    assert append(stats, 1.0, 0)
    assert not append(stats, 1.0001, 1)
    stats.written(2, 200, 1.004)
    assert append(stats, 2.0, 3), "behind three entries whose time nobody took"
    stats.written(3, 300, 2.0004)
    stats.written(1, 100, 2.001)
    stats.end_interval(10.0)
    assert stats.last.latencies[FIVE_MS] == 2
    assert stats.last.latencies[ONE_MS] == 3 + 1
    assert sum(stats.last.latencies) == 6
    assert round(stats.last.latency_ms, 6) == 2 * 4 + 4 * 1
    assert (stats.last.entries, stats.last.bytes, stats.last.rate) == (6, 600, 0.6)


def test_a_group_counts_with_the_mean_size_of_its_entries_at_bounds_that_are_inclusive() -> None:
    stats = WriteStats()
    stats.written(2, 2 * 128, 0.0)
    stats.written(1, 129, 0.0)
    stats.written(3, 3 * 1_048_577, 0.0)
    stats.end_interval(1.0)
    assert stats.last.sizes == (2, 1, 0, 0, 0, 0, 0, 0, 3)
    assert sum(stats.last.latencies) == 0, "none was timed"


def test_an_append_that_fails_is_not_timed_and_the_next_one_is() -> None:
    stats = WriteStats()
    append(stats, 1.0, 0)
    stats.failed()
    assert append(stats, 5.0, 0)
    stats.written(1, 1, 5.0001)
    stats.end_interval(1.0)
    assert stats.last.latencies[HALF_MS] == 1


def test_each_interval_begins_at_nothing() -> None:
    stats = WriteStats()
    stats.written(1, 1, 0.0)
    stats.end_interval(1.0)
    assert stats.last.entries == 1
    stats.end_interval(1.0)
    assert stats.last is NOTHING_WRITTEN
