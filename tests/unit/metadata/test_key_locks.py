"""Operations on one key run one after the other; keys do not wait for each other."""

import asyncio

import pytest

from pulsar_barycenter.metadata.key_locks import KeyLocks


async def test_one_key_waits_in_order_and_others_do_not() -> None:
    serials, done = KeyLocks[str](), list[str]()
    go_on = asyncio.Event()

    async def work(key: str, name: str) -> None:
        async with serials.hold(key):
            done.append(f"{name} begins")
            if name == "first":
                await go_on.wait()
            done.append(f"{name} ends")

    tasks = [asyncio.create_task(work(key, name)) for key, name in (("a", "first"), ("a", "second"), ("b", "other"))]
    await tasks[2]
    assert done == ["first begins", "other begins", "other ends"]
    assert ("a" in serials, "b" in serials) == (True, False)
    go_on.set()
    await asyncio.gather(*tasks)
    assert done[3:] == ["first ends", "second begins", "second ends"]
    assert "a" not in serials


async def test_who_fails_or_gives_up_waiting_lets_the_next_go_on() -> None:
    serials = KeyLocks[str]()

    async def fails() -> None:
        async with serials.hold("a"):
            waiting = asyncio.ensure_future(serials.hold("a").__aenter__())
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.wait([waiting])
            raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        await fails()
    assert "a" not in serials
    async with serials.hold("a"):
        assert "a" in serials
