"""The output of `barycenter standalone` at its start, and its end: in order after a Ctrl-C, at once after a second."""

import asyncio
from pathlib import Path

import pytest
from click.testing import CliRunner

from pulsar_barycenter.cli.run.standalone import command, end, first_line
from pulsar_barycenter.standalone.cluster import ClusterSettings
from pulsar_barycenter.standalone.data_directory import DataDirectory


class Lines:
    def __init__(self) -> None:
        self.said: list[str] = []

    def phase(self, name: str, doing: str) -> None:
        raise AssertionError(f"{name}: {doing}")

    def done(self, name: str, result: str) -> None:
        raise AssertionError(f"{name}: {result}")

    def event(self, text: str) -> None:
        self.said.append(text)


class Cluster:
    def __init__(self, *, hangs: bool) -> None:
        self.stopping = asyncio.Event()
        self.killed = False
        self._hangs = hangs

    async def stop(self) -> None:
        self.stopping.set()
        if self._hangs:
            await asyncio.Event().wait()

    async def kill(self) -> None:
        self.killed = True


async def test_a_cluster_that_ends_in_order_says_what_is_waited_for_and_when_it_is_over() -> None:
    cluster, lines = Cluster(hangs=False), Lines()
    await end(cluster, asyncio.Event(), lines)
    assert lines.said == [
        "ending in order: the brokers hand over their bundles; Ctrl-C again ends everything at once",
        "stopped",
    ]
    assert not cluster.killed


async def test_a_second_signal_ends_it_at_once() -> None:
    cluster, lines, again = Cluster(hangs=True), Lines(), asyncio.Event()
    ending = asyncio.create_task(end(cluster, again, lines))
    await cluster.stopping.wait()
    again.set()
    await ending
    assert lines.said[1:] == ["ending at once", "stopped"]
    assert cluster.killed


def test_ports_that_cannot_be_are_refused_before_a_start_is_announced(tmp_path: Path) -> None:
    words = ["--data", str(tmp_path / "data"), "--brokers", "3", "--web-port", "65535", "--broker-port", "0"]
    result = CliRunner().invoke(command, [*words, "--no-pipeline"])
    assert result.exit_code == 1
    assert result.stderr.splitlines() == [
        "barycenter: 3 brokers need ports 65535 to 65537: they must not overlap or exceed 65535. "
        "Choose another --web-port."
    ]


@pytest.mark.parametrize(
    ("brokers", "pipeline", "begin"),
    [(1, True, "starting a broker, then the pipeline: "), (2, False, "starting 2 brokers: ")],
)
def test_the_first_line_says_what_is_started(tmp_path: Path, brokers: int, begin: str, *, pipeline: bool) -> None:
    settings = ClusterSettings(DataDirectory(tmp_path), brokers=brokers, pipeline=pipeline)
    assert first_line(settings).startswith(begin)
