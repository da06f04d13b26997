"""A cluster whose children are small programs: the display of its start, and a pipeline that fails or is killed."""

import asyncio
import signal
import textwrap
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pulsar_barycenter.standalone import cluster as clusters
from pulsar_barycenter.standalone.cluster import ClusterSettings, StandaloneCluster
from pulsar_barycenter.standalone.data_directory import DataDirectory, DataDirectoryLock
from pulsar_barycenter.standalone.errors import ProcessFailedError
from pulsar_barycenter.standalone.process import ChildProcess
from pulsar_barycenter.standalone.restarts import Restart, read_restart

PIPELINE = """
    import pathlib, signal, sys
    print("starting Spark", flush=True)
    if not pathlib.Path("{may_start}").exists():
        if pathlib.Path("{hangs}").exists():
            signal.pause()
        sys.exit("no Java")
    print("ready", flush=True)
    signal.pause()
"""


class Shown:
    """Keeps what is shown, and wakes up tests that wait for a part of it."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._more = asyncio.Event()

    def phase(self, name: str, doing: str) -> None:
        self.event(f"{name}: {doing}")

    def done(self, name: str, result: str) -> None:
        self.event(f"{name}: {result}")

    def event(self, text: str) -> None:
        self.lines.append(text)
        self._more.set()

    async def until(self, part: str) -> str:
        async with asyncio.timeout(60):
            while True:
                for line in self.lines:
                    if part in line:
                        return line
                self._more.clear()
                await self._more.wait()


class World:
    """A cluster without brokers, whose pipeline starts once `let_it_start` was called."""

    def __init__(self, folder: Path) -> None:
        self.shown = Shown()
        self.root = folder
        self._may_start = folder / "may-start"
        self._hangs = folder / "hangs"
        (folder / "a_pipeline.py").write_text(
            textwrap.dedent(PIPELINE.format(may_start=self._may_start, hangs=self._hangs))
        )
        self.cluster = StandaloneCluster(ClusterSettings(DataDirectory(folder), brokers=1), progress=self.shown)
        self.cluster.brokers.clear()
        self.pipeline = ChildProcess("pipeline", ["a_pipeline"], folder / "p.log", {"PYTHONPATH": str(folder)})
        self.cluster.pipeline = self.pipeline

    def let_it_start(self) -> None:
        self._may_start.touch()

    def let_it_hang(self) -> None:
        """Until it may start, the pipeline neither becomes ready nor ends."""
        self._hangs.touch()

    async def restart(self) -> Restart:
        async with asyncio.timeout(60):
            while (found := read_restart(self.root)) is None:
                await asyncio.sleep(0.01)
            return found


@pytest.fixture
async def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    monkeypatch.setattr(clusters, "_RESTART_PAUSES_S", (0.05,))
    with DataDirectoryLock(DataDirectory(tmp_path)):
        made = World(tmp_path)
        try:
            yield made
        finally:
            await made.cluster.kill()


async def test_brokers_serve_before_the_pipeline_whose_phases_are_shown(world: World) -> None:
    world.let_it_start()
    await world.cluster.serve()
    assert world.cluster.ready().pipeline == "starting"
    assert world.shown.lines == []
    world.cluster.bring_up_pipeline()
    await world.shown.until("pipeline: ready after")
    assert world.shown.lines[:2] == ["pipeline: starting", "pipeline: starting Spark"]


async def test_a_pipeline_that_does_not_start_is_shown_with_its_reason_and_tried_again(world: World) -> None:
    await world.cluster.serve()
    world.cluster.bring_up_pipeline()
    assert "no Java" in await world.shown.until("the brokers serve without the pipeline")
    await world.shown.until("pipeline did not start; restarting it in 0.05 s")
    restart = await world.restart()
    assert restart.by == "barycenter standalone"
    world.let_it_start()
    await world.shown.until("pipeline is back")
    assert read_restart(world.root) is None


async def test_a_pipeline_that_is_not_ready_in_time_is_tried_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clusters, "_PIPELINE_READY_TIMEOUT_S", 2.0)
    world.let_it_hang()
    await world.cluster.serve()
    world.cluster.bring_up_pipeline()
    await world.shown.until("the brokers serve without the pipeline")
    await world.shown.until("pipeline was not ready within 2 s; restarting it")
    world.let_it_start()
    await world.shown.until("pipeline is back")


async def test_while_a_killed_pipeline_is_started_again_a_note_says_so(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.let_it_start()
    await world.cluster.serve()
    world.cluster.bring_up_pipeline()
    await world.shown.until("pipeline: ready after")
    monkeypatch.setattr(clusters, "_RESTART_PAUSES_S", (3600.0,))
    world.pipeline.signal(signal.SIGKILL)
    restart = await world.restart()
    assert (restart.attempt, restart.reason) == (1, "the process before ended with code -9")
    await world.cluster.stop()
    assert read_restart(world.root) is None


async def test_a_cluster_that_is_not_to_restart_raises_what_a_child_failed_with(world: World) -> None:
    with pytest.raises(ProcessFailedError, match="no Java"):
        await world.cluster.start()
