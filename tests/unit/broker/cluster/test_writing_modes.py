"""The mode of writing metadata is read from a store that may not answer for a moment."""

import asyncio
from typing import Final

import pytest

from pulsar_barycenter.broker.cluster.writing_modes import refuse_leader_writers
from pulsar_barycenter.broker.start_errors import MixedWritersError
from pulsar_barycenter.metadata.errors import StoreUnavailableError
from pulsar_barycenter.metadata.leader_writes.session_records import SESSIONS_ROOT
from support.virtual_time import World, on_virtual_time

PATIENCE_S: Final = 20.0


def test_a_store_that_is_silent_while_it_elects_is_asked_again() -> None:
    async def run(world: World) -> None:
        machine = world.machine()
        world.backend.stop()
        asked = asyncio.ensure_future(refuse_leader_writers(machine.store, within_s=PATIENCE_S))
        await asyncio.sleep(PATIENCE_S / 2)
        assert not asked.done()
        world.backend.start()
        await asked

    on_virtual_time(run)


def test_a_store_that_stays_silent_is_given_up() -> None:
    async def run(world: World) -> None:
        machine = world.machine()
        world.backend.stop()
        with pytest.raises(StoreUnavailableError):
            await refuse_leader_writers(machine.store, within_s=PATIENCE_S)

    on_virtual_time(run)


def test_a_session_that_a_leader_granted_is_refused_at_once() -> None:
    async def run(world: World) -> None:
        machine = world.machine()
        await machine.store.put(f"{SESSIONS_ROOT}/a", b"{}")
        with pytest.raises(MixedWritersError):
            await refuse_leader_writers(machine.store, within_s=PATIENCE_S)

    on_virtual_time(run)
