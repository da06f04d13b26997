"""Many independent writes."""

import asyncio
from collections.abc import Coroutine, Iterator
from typing import Any

import pytest
from structlog.testing import capture_logs

from pulsar_barycenter.broker.load_manager.store_writes import all_of
from pulsar_barycenter.metadata.errors import NotLeadingError, StoreUnavailableError
from support.control_cluster import on_virtual_time


def test_writes_are_asked_for_when_those_before_are_done_and_one_refused_keeps_no_other() -> None:
    async def scenario(_: Any) -> None:
        under_way, most, done = 0, 0, []

        async def write(number: int) -> None:
            nonlocal under_way
            await asyncio.sleep(1)
            under_way -= 1
            if number == 7:
                raise StoreUnavailableError("/7", "no answer")
            done.append(number)

        def writes() -> Iterator[Coroutine[Any, Any, None]]:
            nonlocal under_way, most
            for number in range(1_000):
                under_way += 1
                most = max(most, under_way)
                yield write(number)

        with capture_logs() as logs:
            await all_of(writes())
        assert done == [number for number in range(1_000) if number != 7]
        assert most < 100
        assert [each["event"] for each in logs] == ["load_data_not_stored"]

    on_virtual_time(scenario)


def test_what_is_no_answer_of_the_store_is_raised() -> None:
    async def scenario(_: Any) -> None:
        async def write() -> None:
            raise RuntimeError("a bug")

        with pytest.raises(RuntimeError, match="a bug"):
            await all_of([write()])

    on_virtual_time(scenario)


def test_when_another_broker_leads_the_rest_is_left_to_it() -> None:
    """Thousands of writes would all be refused, and each refusal logged."""

    async def scenario(_: Any) -> None:
        asked = 0

        async def write() -> None:
            raise NotLeadingError("/data")

        def writes() -> Iterator[Coroutine[Any, Any, None]]:
            nonlocal asked
            for _ in range(1_000):
                asked += 1
                yield write()

        with capture_logs() as logs:
            await all_of(writes())
        assert asked < 100
        assert [each["event"] for each in logs] == ["load_data_left_to_the_leader"]

    on_virtual_time(scenario)
