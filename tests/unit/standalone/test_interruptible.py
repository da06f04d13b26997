"""A second Ctrl-C ends at once what the first began in order."""

import asyncio

import pytest

from pulsar_barycenter.standalone.interruptible import unless


async def test_work_that_ends_first_is_finished() -> None:
    async def work() -> None:
        await asyncio.sleep(0)

    assert await unless(asyncio.Event(), work())


async def test_work_is_given_up_when_the_signal_comes_first() -> None:
    signalled, cancelled = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        signalled.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    assert not await unless(signalled, work())
    assert cancelled.is_set()


async def test_what_work_fails_with_is_raised() -> None:
    async def work() -> None:
        raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        await unless(asyncio.Event(), work())
