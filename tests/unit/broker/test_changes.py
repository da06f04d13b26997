"""Waiting for changes, and reading again what the store changed."""

import asyncio

from pulsar_barycenter.broker.changes import KeyedChanges, NextChange, StoreWatch
from pulsar_barycenter.metadata.errors import StoreUnavailableError
from support.control_cluster import on_virtual_time


def test_everybody_who_waits_is_woken_and_a_change_is_not_kept_for_later():
    async def scenario(cluster):
        change = NextChange()
        change.notify()
        waiting = [asyncio.ensure_future(change.wait(60)) for _ in range(3)]
        await asyncio.sleep(1)
        assert change.is_awaited
        assert not any(each.done() for each in waiting)
        change.notify()
        await asyncio.gather(*waiting)
        assert not change.is_awaited

    on_virtual_time(scenario)


def test_a_wait_ends_without_a_change_when_its_time_is_over():
    async def scenario(cluster):
        began = cluster.loop.time()
        change = NextChange()
        await change.wait(3)
        assert cluster.loop.time() - began == 3
        assert not change.is_awaited

    on_virtual_time(scenario)


def test_a_change_of_one_key_wakes_who_waits_for_it_alone():
    async def scenario(cluster):
        began = cluster.loop.time()
        changes = KeyedChanges()
        changes.notify("a")
        waiting = {key: asyncio.ensure_future(changes.wait(key, 60)) for key in ("a", "b")}
        await asyncio.sleep(1)
        changes.notify("a")
        await waiting["a"]
        assert not waiting["b"].done()
        changes.notify("b")
        await waiting["b"]
        assert cluster.loop.time() - began < 60

    on_virtual_time(scenario)


def test_a_watch_reads_after_a_change_that_concerns_it_and_after_its_interval_and_survives_a_failure():
    async def scenario(cluster):
        reads = []

        async def first_read():
            reads.append("first")

        async def read(was_told):
            reads.append(was_told)
            if len(reads) == 2:
                raise StoreUnavailableError("/watched", "no answer")

        watch = StoreWatch(
            cluster.admin, name="test", concerns="/watched".__eq__, read=read, interval_s=30, failure="not_read"
        )
        await watch.start(first_read)
        await cluster.admin.put("/other", b"")
        await asyncio.sleep(1)
        assert reads == ["first"]
        await cluster.admin.put("/watched", b"1")
        await asyncio.sleep(1)
        assert reads == ["first", True]
        await asyncio.sleep(30)
        assert reads == ["first", True, False]
        await watch.close()
        await cluster.admin.put("/watched", b"2")
        await asyncio.sleep(60)
        assert reads == ["first", True, False]

    on_virtual_time(scenario)
