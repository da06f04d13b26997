"""How `barycenter standalone` ends: in order after one Ctrl-C, at once after a second, and it says so."""

import asyncio

from pulsar_barycenter.cli.run.standalone import end


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
