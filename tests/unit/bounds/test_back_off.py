"""The pause before the next attempt; clients that failed together do not try again together."""

import asyncio
import random
from collections.abc import Callable, Coroutine
from contextlib import suppress
from itertools import pairwise
from typing import Any

import pytest

from pulsar_barycenter.bounds.back_off import BackOff, Doubling
from pulsar_barycenter.metadata.coordination.leader_election import RETRY_S, LeaderElection
from pulsar_barycenter.metadata.coordination.locks import FIRST_BACKOFF_S, MAX_BACKOFF_S, LockManager
from pulsar_barycenter.metadata.errors import NotLeadingError, StoreUnavailableError
from pulsar_barycenter.metadata.leader_writes.leased_store import LeasedStore
from pulsar_barycenter.metadata.leader_writes.session_table import LeaseTimes
from pulsar_barycenter.metadata.leader_writes.write_requests import Answer, Change
from pulsar_barycenter.metadata.memory.memory_store import MemoryStore
from support.virtual_time import World, on_virtual_time

ATTEMPTS = 6


def test_waits_double_up_to_the_longest_and_are_drawn_from_the_upper_half() -> None:
    back_off = BackOff(random.Random(1), 0.1, 1.0)
    for bound in (0.1, 0.2, 0.4, 0.8, 1.0, 1.0):
        assert bound / 2 <= back_off.next_s() <= bound
    back_off.reset()
    assert back_off.next_s() <= 0.1


def test_waits_without_a_draw_double_up_to_the_longest() -> None:
    waits = Doubling(0.1, 1.0)
    assert [waits.next_s() for _ in range(6)] == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    waits.reset()
    assert waits.next_s() == 0.1


class Attempts:
    """When something was tried, all in vain."""

    def __init__(self) -> None:
        self.at_s: list[float] = []
        self.enough = asyncio.Event()

    async def fail(self, path: str, *_: object, **_options: object) -> Any:
        self.at_s.append(asyncio.get_running_loop().time())
        if len(self.at_s) >= ATTEMPTS:
            self.enough.set()
        raise StoreUnavailableError(path, "no answer")

    async def waits(self) -> list[float]:
        await self.enough.wait()

        return [round(after - before, 6) for before, after in pairwise(self.at_s[:ATTEMPTS])]


async def prove_lock(store: MemoryStore, source: random.Random) -> list[float]:
    attempts, locks = Attempts(), LockManager(store, str, source=source)
    lock = await locks.acquire("/lock", "mine")
    store.get = attempts.fail  # type: ignore[method-assign]
    lock.doubt()
    waits = await attempts.waits()
    lock.expire()
    return waits


async def elect(store: MemoryStore, source: random.Random) -> list[float]:
    attempts = Attempts()
    store.get = attempts.fail  # type: ignore[method-assign]
    election = LeaderElection(store, "/leader", str, "me", source=source)
    with suppress(StoreUnavailableError):
        await election.elect()
    waits = await attempts.waits()
    await election.close()
    return waits[1:]  # the first comes at once: `elect` has the election go on in the background


async def ask_leader(store: MemoryStore, source: random.Random) -> list[float]:
    attempts = Attempts()

    async def ask(session: str, number: int, over_below: int, change: Change) -> Answer:
        with suppress(StoreUnavailableError):
            await attempts.fail("/")
        raise NotLeadingError("/", "nobody leads")

    leased = LeasedStore(
        store,
        ask,
        LeaseTimes(10),
        is_own=lambda path: False,
        draw_session=lambda: f"{source.getrandbits(128):032x}",
        patience_s=60,
        source=source,
    )
    opening = asyncio.create_task(leased.open("b:8080", within_s=60))
    waits = await attempts.waits()
    opening.cancel()
    await asyncio.gather(opening, return_exceptions=True)
    await leased.close()
    return waits


@pytest.mark.parametrize(
    ("tries", "bounds"),
    [
        (prove_lock, [min(FIRST_BACKOFF_S * 2**number, MAX_BACKOFF_S) for number in range(ATTEMPTS - 1)]),
        (elect, [RETRY_S] * (ATTEMPTS - 2)),
        (ask_leader, [0.1] * (ATTEMPTS - 1)),
    ],
)
def test_two_who_failed_together_do_not_try_again_together(
    tries: Callable[[MemoryStore, random.Random], Coroutine[Any, Any, list[float]]], bounds: list[float]
) -> None:
    async def test(world: World) -> None:
        async def waits(name: str, seed: int) -> list[float]:
            return await tries(world.machine(name).store, random.Random(seed))

        one, other = await waits("one", 1), await waits("other", 2)
        assert all(bound / 2 <= wait <= bound + 1e-9 for wait, bound in zip(one, bounds, strict=True))
        assert one != other
        assert one == await waits("as one", 1), "the same draws, the same waits"

    on_virtual_time(test)
