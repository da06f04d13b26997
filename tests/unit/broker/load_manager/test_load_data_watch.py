"""The watch over a load manager's picture, with a list of brokers that the test changes."""

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from pulsar_barycenter.broker.cluster.registration import Registration
from pulsar_barycenter.broker.load_manager.load_data_watch import LoadDataWatch
from pulsar_barycenter.metadata.errors import StoreUnavailableError
from support.control_cluster import on_virtual_time


class Cluster:
    """The registered brokers, the known ones, and the errors of a refresh."""

    def __init__(self) -> None:
        self.brokers = frozenset({"a", "b"})
        self.known = frozenset[str]()
        self.listeners: list[Callable[[], None]] = []
        self.refreshes = 0
        self.error: Exception | None = None
        self.watch = LoadDataWatch(cast("Registration", self), self.refresh, lambda: self.known)

    def on_change(self, listener: Callable[[], None]) -> Callable[[], None]:
        self.listeners.append(listener)
        return lambda: self.listeners.remove(listener)

    def change(self, *brokers: str) -> None:
        self.brokers = frozenset(brokers)
        for listener in self.listeners:
            listener()

    async def refresh(self) -> None:
        self.refreshes += 1
        await asyncio.sleep(1)
        if self.error is not None:
            raise self.error
        self.known = self.brokers


def test_of_many_who_ask_at_once_one_has_the_picture_refreshed() -> None:
    async def scenario(_: Any) -> None:
        cluster = Cluster()
        for brokers in (("a", "b"), ("b",)):
            cluster.change(*brokers)
            before = cluster.refreshes
            await asyncio.gather(*(cluster.watch.catch_up(with_every_change=False) for _ in range(5)))
            assert (cluster.refreshes - before, cluster.known) == (1, frozenset(brokers))
        cluster.change("b", "c")
        await cluster.watch.catch_up(with_every_change=False)
        assert cluster.known == {"b"}, "one that came may wait"

    on_virtual_time(scenario)


def test_after_every_change_the_picture_is_refreshed_until_the_watch_is_closed() -> None:
    async def scenario(_: Any) -> None:
        cluster = Cluster()
        await cluster.watch.start(cluster.refresh)
        cluster.change("c")
        await asyncio.sleep(2)
        assert cluster.known == {"c"}
        for _ in range(2):
            await cluster.watch.close()
        cluster.change("d")
        await asyncio.sleep(2)
        assert (cluster.known, cluster.listeners) == ({"c"}, [])

    on_virtual_time(scenario)


@pytest.mark.parametrize("error", [StoreUnavailableError("/loadbalance", "no answer"), RuntimeError("a bug")])
def test_a_refresh_that_fails_is_told_and_does_not_end_the_watch(error: Exception) -> None:
    async def scenario(_: Any) -> None:
        cluster = Cluster()
        await cluster.watch.start(cluster.refresh)
        cluster.error = error
        with capture_logs() as logs:
            cluster.change("c")
            await asyncio.sleep(1.5)
            assert [each["event"] for each in logs] == ["load_data_not_refreshed"]
            cluster.error = None
            if isinstance(error, RuntimeError):  # the store is asked again without a change, a bug waits for one
                cluster.change("c")
            await asyncio.sleep(3)
        assert cluster.known == {"c"}
        await cluster.watch.close()

    on_virtual_time(scenario)


def test_what_somebody_began_to_refresh_who_then_gave_up_is_still_to_be_done() -> None:
    async def scenario(_: Any) -> None:
        cluster = Cluster()
        registration = cast("Registration", cluster)
        watch = LoadDataWatch(registration, cluster.refresh, lambda: cluster.known, pause_share=100)
        await watch.start(cluster.refresh)
        cluster.change("a", "b", "c")
        await asyncio.sleep(2)  # from here on it rests
        cluster.change("a", "b", "c", "d")
        asking = asyncio.create_task(watch.catch_up(with_every_change=True))
        await asyncio.sleep(0.5)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        assert cluster.known == {"a", "b", "c"}
        await watch.catch_up(with_every_change=True)
        assert cluster.known == {"a", "b", "c", "d"}
        await watch.close()

    on_virtual_time(scenario)


def test_without_the_store_there_is_a_picture_only_if_there_was_one() -> None:
    async def scenario(_: Any) -> None:
        cluster = Cluster()
        cluster.error = StoreUnavailableError("/loadbalance", "no answer")
        with pytest.raises(StoreUnavailableError):
            await cluster.watch.catch_up(with_every_change=True)
        cluster.known = frozenset({"a"})
        await cluster.watch.catch_up(with_every_change=True)
        assert cluster.refreshes == 2
        cluster.error = None
        await cluster.watch.catch_up(with_every_change=True)
        assert cluster.known == {"a", "b"}, "what failed is still to be done"

    on_virtual_time(scenario)
