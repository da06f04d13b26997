"""The output of a demo without a terminal."""

import pytest

from pulsar_barycenter.demo.live_view import LiveView
from pulsar_barycenter.demo.record import Event, Record


def test_each_event_is_told_once_also_one_that_is_read_after_later_ones(capsys: pytest.CaptureFixture[str]) -> None:
    record = Record(started_at_s=100.0)
    view = LiveView(record, 60.0)
    unload, kill = Event(101.0, "unload", "", "one", None, ""), Event(102.0, "broker killed", "", "one", None, "")
    record.events = [kill]
    view.update(None)
    record.events = [unload, kill]
    view.update(None)
    lines = [line for line in capsys.readouterr().err.splitlines() if " s  " in line]
    assert [line.split("  ", 2)[-1] for line in lines] == ["broker killed  one", "unload  one"]
