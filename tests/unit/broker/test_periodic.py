"""Periodic work that fails, and is done again at its next time."""

import asyncio
from collections.abc import Iterator

import pytest
from structlog.testing import capture_logs

from pulsar_barycenter.broker.periodic import PeriodicTasks
from pulsar_barycenter.metadata.errors import SessionLostError, StoreUnavailableError


@pytest.mark.parametrize(
    ("error", "level", "is_traced"),
    [
        (StoreUnavailableError("/a", "no session"), "warning", False),
        (SessionLostError("/a", "the session has ended"), "warning", False),
        (ZeroDivisionError(), "error", True),
    ],
)
async def test_work_that_fails_is_logged_and_continues(error: Exception, level: str, is_traced: bool) -> None:
    """A store that does not answer is no fault of the broker: there is no traceback."""
    failures: Iterator[Exception] = iter([error])
    done = asyncio.Event()

    async def work() -> None:
        for failure in failures:
            raise failure
        done.set()

    tasks = PeriodicTasks()
    with capture_logs() as logs:
        tasks.start("upkeep", work, lambda: 0.0)
        async with asyncio.timeout(10):
            await done.wait()
    await tasks.close()
    (line,) = logs
    assert (line["event"], line["task"], line["log_level"]) == ("periodic_task_failed", "upkeep", level)
    assert line.get("exc_info", False) is is_traced
    assert is_traced or line["reason"] == str(error)
