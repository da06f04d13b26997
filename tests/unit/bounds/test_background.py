"""Background tasks: run to their end, their failures logged, ended in the order of their start."""

import asyncio

import pytest
from structlog.testing import capture_logs

from pulsar_barycenter.bounds.background import BackgroundTasks, TasksClosedError


async def test_tasks_end_in_the_order_of_their_start() -> None:
    tasks, ended = BackgroundTasks("test_failed"), []

    async def work(number: int) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(number)

    for number in range(50):
        tasks.start(work(number), f"work {number}")
    await asyncio.sleep(0)
    await tasks.close()
    assert ended == list(range(50))
    await tasks.close()


async def test_work_goes_on_when_its_caller_goes_away() -> None:
    tasks, go_on, done = BackgroundTasks("test_failed"), asyncio.Event(), asyncio.Event()

    async def work() -> None:
        await go_on.wait()
        done.set()

    caller = asyncio.ensure_future(tasks.complete(asyncio.create_task(work())))
    await asyncio.sleep(0)
    caller.cancel()
    await asyncio.gather(caller, return_exceptions=True)
    assert caller.cancelled()
    go_on.set()
    await done.wait()


async def test_a_caller_is_told_apart_from_a_close() -> None:
    tasks = BackgroundTasks("test_failed")
    caller = asyncio.ensure_future(tasks.complete(asyncio.create_task(asyncio.Event().wait())))
    await asyncio.sleep(0)
    await tasks.close()
    with pytest.raises(TasksClosedError):
        await caller


async def test_a_failure_is_logged_unless_it_is_expected() -> None:
    async def fail(error: Exception) -> None:
        raise error

    tasks = BackgroundTasks("test_failed", expected=(KeyError,))
    with capture_logs() as logs:
        failing = [tasks.start(fail(error), name) for error, name in ((KeyError("a"), "one"), (ValueError("b"), "two"))]
        await asyncio.gather(*failing, return_exceptions=True)
        with pytest.raises(ValueError, match="c"):
            await tasks.complete(asyncio.create_task(fail(ValueError("c")), name="three"))
    assert [(line["event"], line["task"], line["error"]) for line in logs] == [
        ("test_failed", "two", "ValueError('b')"),
        ("test_failed", "three", "ValueError('c')"),
    ]


async def test_tasks_that_are_cancelled_end_after_the_step_in_which_they_are() -> None:
    tasks = BackgroundTasks("test_failed")
    for number in range(3):
        tasks.start(asyncio.Event().wait(), f"work {number}")
    assert len(tasks) == 3
    tasks.cancel()
    assert len(tasks) == 3
    await tasks.ended()
    await asyncio.sleep(0)
    assert len(tasks) == 0


async def test_a_task_that_waits_for_the_others_does_not_wait_for_itself() -> None:
    tasks, ended = BackgroundTasks("test_failed"), []

    async def last() -> None:
        await tasks.ended()
        ended.append("last")

    async def first() -> None:
        await asyncio.sleep(0)
        ended.append("first")

    waiting = tasks.start(last(), "last")
    tasks.start(first(), "first")
    await waiting
    assert ended == ["first", "last"]


async def test_a_cancelled_wait_does_not_cancel_the_tasks() -> None:
    tasks = BackgroundTasks("test_failed")
    work = tasks.start(asyncio.Event().wait(), "work")
    waiting = asyncio.ensure_future(tasks.ended())
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert not work.done()
    await tasks.close()


async def test_a_task_that_was_started_elsewhere_is_owned_too() -> None:
    tasks = BackgroundTasks("test_failed")
    task = tasks.keep(asyncio.create_task(asyncio.Event().wait()))
    await asyncio.sleep(0)
    await tasks.close()
    assert task.cancelled()
