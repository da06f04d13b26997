"""One search for all look-ups of a bundle that wait: when it attempts, what it checks, and how it ends."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from pulsar_barycenter.broker.cluster.lookup_answers import (
    BundleNotFoundError,
    BundleUnloadingError,
    LookupNotReadyError,
    Owner,
)
from pulsar_barycenter.broker.lookup.owner_search import Candidate, Wait
from pulsar_barycenter.broker.lookup.refusing_brokers import RefusingBrokers
from pulsar_barycenter.broker.lookup.shared_searches import SharedSearches
from pulsar_barycenter.metadata.errors import StoreUnavailableError
from pulsar_barycenter.naming.bundle import FULL_RANGE, Bundle
from support.control_cluster import NAMESPACE, ControlCluster, on_virtual_time

BUNDLE = Bundle(NAMESPACE, FULL_RANGE)
OWNER = Owner("a:8080", "pulsar://a:6650", None, None, None, is_local=True)
TRANSIT = Wait("bundle", BundleUnloadingError(BUNDLE))


@dataclass
class Steps:
    """A Search, an Ownership and a Registration that play the given steps and record what is called."""

    steps: list[Owner | Candidate | Wait | Exception]
    checks: list[Exception | None] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)

    async def attempt(self, bundle: Bundle, *, authoritative: bool) -> Owner | Candidate | Wait:
        self.calls.append("attempt")
        step = self.steps.pop(0) if len(self.steps) > 1 else self.steps[0]
        if isinstance(step, Exception):
            raise step
        return step

    async def require(self, bundle: Bundle) -> None:
        self.calls.append("require")
        error = self.checks.pop(0) if self.checks else None
        if error is not None:
            raise error

    async def wait_change(self, *_: Any) -> None:
        self.calls.append("wait")
        await asyncio.sleep(0.25)


async def accepts(url: str) -> bool:
    return False


def searches_of(steps: Steps) -> SharedSearches:
    parts = cast(Any, steps)
    return SharedSearches(steps.require, parts, parts, parts, RefusingBrokers(accepts, longest_s=1.0))


async def find(searches: SharedSearches, within_s: float = 5.0, *, authoritative: bool = False) -> Owner | Candidate:
    deadline = asyncio.get_running_loop().time() + within_s
    return await searches.find(BUNDLE, authoritative=authoritative, deadline=deadline)


def played(scenario: Callable[[], Any]) -> None:
    async def run(_: ControlCluster) -> None:
        await scenario()

    on_virtual_time(run)


def test_a_bundle_that_was_just_resolved_is_not_resolved_again_before_a_wait() -> None:
    async def scenario() -> None:
        steps = Steps([TRANSIT, TRANSIT, OWNER])
        assert await find(searches_of(steps)) is OWNER
        assert steps.calls == ["attempt", "wait", "require", "attempt", "wait", "require", "attempt"]

    played(scenario)


def test_a_bundle_that_is_split_during_a_wait_ends_the_search() -> None:
    async def scenario() -> None:
        steps = Steps([TRANSIT, OWNER], checks=[BundleNotFoundError(BUNDLE)])
        with pytest.raises(BundleNotFoundError):
            await find(searches_of(steps))
        assert steps.calls == ["attempt", "wait", "require"]

    played(scenario)


def test_a_store_that_does_not_answer_is_asked_again() -> None:
    async def scenario() -> None:
        silent = StoreUnavailableError("/a", "no answer")
        steps = Steps([silent, OWNER], checks=[silent])
        assert await find(searches_of(steps)) is OWNER
        assert steps.calls == ["attempt", "wait", "require", "wait", "require", "attempt"]

    played(scenario)


def test_look_ups_of_a_bundle_share_one_search_and_authoritative_ones_another() -> None:
    async def scenario() -> None:
        steps = Steps([TRANSIT, TRANSIT, TRANSIT, TRANSIT, OWNER])
        searches = searches_of(steps)
        found = await asyncio.gather(*(find(searches, authoritative=number > 1) for number in range(4)))
        assert found == [OWNER] * 4
        assert steps.calls.count("attempt") == 6

    played(scenario)


def test_each_look_up_gets_the_last_error_at_its_own_time_limit() -> None:
    async def scenario() -> None:
        searches = searches_of(Steps([TRANSIT]))
        loop = asyncio.get_running_loop()
        began = loop.time()

        async def time_of_error(within_s: float) -> float:
            with pytest.raises(BundleUnloadingError):
                await find(searches, within_s)
            return loop.time() - began

        times = await asyncio.gather(time_of_error(1.0), time_of_error(3.0))
        assert times == pytest.approx([1.0, 3.0], abs=0.3)

    played(scenario)


def test_a_close_answers_those_that_wait_and_those_that_come_later() -> None:
    async def scenario() -> None:
        searches = searches_of(Steps([TRANSIT]))
        waiting = asyncio.ensure_future(find(searches))
        await asyncio.sleep(0.1)
        await searches.close()
        await searches.close()
        for late in (waiting, find(searches)):
            with pytest.raises(LookupNotReadyError):
                await late
        assert searches.is_closed

    played(scenario)
