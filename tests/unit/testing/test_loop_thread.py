"""The event loop of a synchronous cluster ends wherever it was started."""

import asyncio
import threading

import pytest

from pulsar_barycenter.testing.loop_thread import LoopThread


async def _answer() -> int:
    return 42


def _use() -> None:
    thread = LoopThread("loop of a test")
    assert thread.run(_answer()) == 42
    thread.close()
    thread.close()


def test_it_ends_with_its_thread() -> None:
    _use()
    assert "loop of a test" not in {thread.name for thread in threading.enumerate()}


async def test_it_ends_below_a_loop_that_runs_as_in_a_notebook() -> None:
    assert asyncio.get_running_loop().is_running()
    _use()


def test_work_that_is_left_is_cancelled() -> None:
    thread = LoopThread("loop of a test")
    ended = threading.Event()

    async def wait_for_ever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async def start() -> asyncio.Task[None]:
        task = asyncio.create_task(wait_for_ever())
        await asyncio.sleep(0)
        return task

    task = thread.run(start())
    thread.close()
    assert ended.is_set()
    with pytest.raises(asyncio.CancelledError):
        task.result()
