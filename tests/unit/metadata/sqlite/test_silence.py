"""Whose silence counts: by the watcher's own clock alone, without times in which the watcher may have been paused."""

from pulsar_barycenter.metadata.sqlite.silence import SeenSession, SilenceWatch


def session(beat, *, number=1):
    return SeenSession(number, 10_000, beat, "lock")


def test_a_count_that_stands_still_for_the_timeout_is_silence():
    watch = SilenceWatch(100)
    for now_s in range(101, 111):
        assert watch.silent([session(7)], now_s) == set()
    assert watch.silent([session(7), session(1, number=2)], 111) == {1}


def test_a_heartbeat_begins_the_count_anew():
    watch = SilenceWatch(100)
    for now_s, beat in [(103, 1), (107, 1), (112, 2), (117, 2), (121, 2)]:
        assert watch.silent([session(beat)], now_s) == set()
    assert watch.silent([session(2)], 122) == {1}


def test_a_watcher_that_slept_for_half_a_timeout_begins_anew():
    watch = SilenceWatch(100)
    assert watch.silent([session(1)], 101) == set()
    assert watch.silent([session(1)], 111) == set()
    assert watch.silent([session(1)], 116) == set()
    assert watch.silent([session(1)], 121) == {1}


def test_a_watcher_that_could_not_act_begins_anew_when_told_so():
    watch = SilenceWatch(100)
    watch.silent([session(1)], 101)
    for now_s in range(102, 111):
        watch.skip(now_s)
    watch.restart()
    assert watch.silent([session(1)], 112) == set()
    assert watch.silent([session(1)], 117) == set()
    assert watch.silent([session(1)], 122) == {1}
