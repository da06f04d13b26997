"""What `barycenter broker` does before it serves."""

from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from barycenter.cli import broker


def test_a_broker_takes_short_turns_before_it_starts_a_thread(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    done: list[str] = []

    def serve(work: Coroutine[Any, Any, None]) -> None:
        work.close()
        done.append("serves")

    monkeypatch.setattr(broker, "configure_logging", lambda **_: None)
    monkeypatch.setattr(broker, "take_short_turns", lambda: done.append("short turns"))
    monkeypatch.setattr(broker.uvloop, "run", serve)
    conf = tmp_path / "broker.conf"
    conf.write_text(f"clusterName=c1\nbarycenterDataDir={tmp_path}\n")
    result = CliRunner().invoke(broker.command, ["--config", str(conf)])
    assert result.exit_code == 0, result.output
    assert done == ["short turns", "serves"]
