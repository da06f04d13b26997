"""Histories in which leaders continue with pending writes and commands after another one was elected.

A task of a leader reads its epoch, is paused for up to two sessions, and continues regardless, in whatever session its
broker has by then. The judge knows the content of the store at each moment, and requires:

- *epochs rise*: the record of epochs is never taken back and never removed;
- *former leaders*: no write of a leader is stored under another epoch than the current one, and no command is carried
  out that was sent after its epoch was over.
"""

import asyncio
import json
from collections.abc import Callable
from typing import Any, Final

from pulsar_barycenter.broker.cluster.leadership import LEADER_PATH
from pulsar_barycenter.metadata.coordination.epochs import Epoch, FencedStore, epoch_path
from pulsar_barycenter.metadata.memory.memory_store import MemoryBackend
from pulsar_barycenter.metadata.store import Notification, NotificationType
from support.simulation.cluster import BrokerProcess
from support.simulation.faults import Faults
from support.simulation.loop import SimulationError

LEADERS_ROOT: Final = "/loadbalance/resource-quota/namespace/simulated"
"""Where leaders write here: which epoch they think it is."""


class LeaderFaults(Faults):
    def __init__(self, *arguments: Any) -> None:
        self.refused = 0
        """How often a store or a broker refused a former leader."""
        self.accepted = 0
        super().__init__(*arguments)
        self._epoch_of_now = 0
        judged = self.cluster.referee.on_change

        def on_change(backend: MemoryBackend, change: Notification) -> None:
            judged(backend, change)
            self._judge(backend, change)

        self.cluster.referee.on_change = on_change  # type: ignore[method-assign]

    def _all(self) -> dict[str, tuple[int, Callable[[], None]]]:
        return super()._all() | {
            "leader writes": (30, self._leader_writes),
            "leader commands": (20, self._leader_commands),
            "leader learns": (6, self._leader_learns),
            "leader away": (12, self._leader_away),
        }

    async def end(self) -> None:
        """Wait until no task is paused any more, too."""
        await super().end()
        await asyncio.sleep(2 * self._session_s())

    def _judge(self, backend: MemoryBackend, change: Notification) -> None:
        if change.path == epoch_path(LEADER_PATH) and change.type is not NotificationType.CHILDREN_CHANGED:
            now = 0 if change.type is NotificationType.DELETED else int(self._stored(change.path)["epoch"])
            if now <= self._epoch_of_now:
                self._fail("epochs rise", f"{now} after {self._epoch_of_now}")
            self._epoch_of_now = now
        elif change.path.startswith(LEADERS_ROOT) and change.type is not NotificationType.CHILDREN_CHANGED:
            written = int(self._stored(change.path)["epoch"])
            if written != self._epoch_of_now:
                self._fail("former leaders", f"{change.path} written under {written}, it is {self._epoch_of_now}")
            self.accepted += 1

    def _stored(self, path: str) -> Any:
        record = self.cluster.backend.keys.get(path, session=None)
        assert record is not None
        return json.loads(record.value)

    def _fail(self, check: str, detail: str) -> None:
        error = SimulationError(check, detail)
        self._loop.failures.append(error)
        raise error

    # ---- what leaders do late ----

    def _leader(self) -> tuple[BrokerProcess, Epoch] | None:
        leader = self._leading()
        return None if leader is None else (leader, leader.control.leadership.epoch())

    def _held_up_s(self) -> float:
        return self._random.choice((0.0, 0.01, self._random.uniform(0, 2 * self._session_s())))

    def _leader_writes(self) -> None:
        if (found := self._leader()) is None:
            return
        leader, epoch = found
        path, held_up_s = f"{LEADERS_ROOT}/{self._random.randrange(3)}", self._held_up_s()

        async def write() -> None:
            await asyncio.sleep(held_up_s)
            fenced = FencedStore(leader.store, lambda: epoch, self._count_refusal)
            await fenced.put(path, json.dumps({"epoch": epoch.number}).encode())

        self._command(leader, write(), "leader writes")

    def _count_refusal(self, _epoch: Epoch) -> None:
        self.refused += 1

    def _leader_commands(self) -> None:
        found, served = self._leader(), self._served()
        if found is None or served is None:
            return
        (leader, epoch), (owner, bundle) = found, served
        held_up_s, splits = self._held_up_s(), self._random.random() < 0.2 and self.cluster.referee.splits < 3

        async def command() -> None:
            await asyncio.sleep(held_up_s)
            is_over = epoch.number < self._epoch_of_now
            peers, url = leader.control.env.peers, owner.web_url
            owned = owner.is_up and owner.control.ownership.is_owned(bundle)
            if splits:
                done = peers.split_bundle(
                    url, bundle, algorithm="range_equally_divide", unload=False, epoch=epoch.number
                )
            else:
                done = peers.unload_bundle(url, bundle, destination=None, epoch=epoch.number)
            try:
                await done
            except Exception:
                self.refused += is_over
                raise
            if is_over and owned and (bundle, epoch.number) not in self.cluster.without_owner:
                self._fail("former leaders", f"{bundle}: a command of epoch {epoch.number} was carried out")

        self._command(leader, command(), "leader commands")

    def _leader_learns(self) -> None:
        """Let the present leader store what it learned, as the load manager does periodically."""
        if (found := self._leader()) is not None:
            leader, _ = found
            self._command(leader, leader.control.load_manager.write_resource_quotas(), "leader learns")

    def _leader_away(self) -> None:
        """Let it lose its session unnoticed, or pause it until another one leads."""
        if (found := self._leader()) is None:
            return
        leader, _ = found
        if self._random.random() < 0.5:
            self.cluster.referee.on_disowned(leader.node, self._loop.time() + self._session_s())
            self.cluster.backend.expire_session(leader.store)
            return
        leader.pause()

        async def resume() -> None:
            await asyncio.sleep(self._random.uniform(1.1, 1.8) * self._session_s())
            if leader.node.alive and leader.node.paused:
                leader.resume()

        self._later(resume(), f"resume {leader.name}")
