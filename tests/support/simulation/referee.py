"""What must hold at every step of a simulated cluster, and the notebook that it is judged by.

The referee sees terms of ownership begin and end, acknowledgements as they are given, and every change of the
store. It demands:

- *one server*: no two live brokers serve overlapping ranges of one namespace at one instant;
- *fencing*: once a term acknowledged entries, no term of a lower epoch acknowledges any in an overlapping range,
  and nobody acknowledges in a term that is over;
- *tiling*: stored boundaries cover the hash range exactly, and a later version only adds cuts;
- *epochs rise*: a term that begins has a higher epoch than those that began before it in an overlapping range.

A broker whose session the store ended early (`on_disowned`) cannot know of it until its next heartbeat. Until then
the fences of the single ledgers protect: only *tiling* is asked of it, and that nothing is lost.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pulsar_barycenter.broker.ownership.serving import OwnedBundle
from pulsar_barycenter.broker.ownership.serving_log import ServingLog
from pulsar_barycenter.metadata.memory.memory_store import MemoryBackend
from pulsar_barycenter.metadata.store import Notification, NotificationType
from pulsar_barycenter.naming.bundle import Bundle
from support.simulation.loop import NODE, Node, SimulationError, VirtualTimeLoop

LOCAL_POLICIES = "/admin/local-policies/"


@dataclass(slots=True)
class _Highest:
    """The highest epoch that did something in a range (upper end as stored in the range)."""

    bundle: Bundle
    epoch: int


def overlap(one: Bundle, other: Bundle) -> bool:
    """Return whether two bundles share a hash; upper ends are exclusive except that of the whole range."""
    if one.namespace != other.namespace:
        return False
    return one.range == other.range or (one.range.lower < _end(other) and other.range.lower < _end(one))


def _end(bundle: Bundle) -> int:
    return bundle.range.upper + 1 if bundle.range.upper == 0xFFFFFFFF else bundle.range.upper


class Referee:
    def __init__(self, loop: VirtualTimeLoop) -> None:
        self.acknowledged_entries = 0
        self.terms_begun = 0
        self.splits = 0
        self._loop = loop
        self._unknowing: dict[Node, float] = {}
        self._serving: dict[int, tuple[Node, OwnedBundle]] = {}
        self._acknowledged: list[_Highest] = []
        self._begun: list[_Highest] = []
        self._boundaries: dict[str, tuple[int, ...]] = {}

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Observe every broker of this process while the block runs."""
        originals = OwnedBundle.acknowledged, ServingLog.started, ServingLog.ended
        given, started, ended = originals

        def watched_given(term: OwnedBundle, entries: int, now_ms: int) -> None:
            given(term, entries, now_ms)
            self.on_acknowledged(term, entries)

        def watched_started(log: ServingLog, term: OwnedBundle, reason: str) -> None:
            started(log, term, reason)
            self.on_started(term)

        def watched_ended(log: ServingLog, term: OwnedBundle, reason: str) -> None:
            ended(log, term, reason)
            self._serving.pop(id(term), None)

        OwnedBundle.acknowledged = watched_given  # type: ignore[method-assign,assignment]
        ServingLog.started = watched_started  # type: ignore[method-assign,assignment]
        ServingLog.ended = watched_ended  # type: ignore[method-assign,assignment]
        try:
            yield
        finally:
            OwnedBundle.acknowledged, ServingLog.started, ServingLog.ended = originals  # type: ignore[method-assign]

    # ---- what is seen

    def on_started(self, term: OwnedBundle) -> None:
        node = NODE.get()
        assert node is not None
        self.terms_begun += 1
        self._serving[id(term)] = (node, term)
        self._check_epoch(node, term)
        self._check_one_server(node, term)

    def on_resumed(self, node: Node) -> None:
        """A node runs again; the terms that it still serves count from now on."""
        for owner, term in list(self._serving.values()):
            if owner is node and term.active and term.may_acknowledge:
                self._check_one_server(node, term)

    def on_crashed(self, node: Node) -> None:
        self._serving = {key: each for key, each in self._serving.items() if each[0] is not node}

    def on_disowned(self, node: Node, until_s: float) -> None:
        """The store ended a session that the node kept alive; by `until_s` the node has noticed."""
        self._unknowing[node] = until_s

    def on_acknowledged(self, term: OwnedBundle, entries: int) -> None:
        self.acknowledged_entries += entries
        if not term.may_acknowledge:
            self._fail("fencing", f"{term.bundle}: acknowledged under epoch {term.epoch}, whose term is over")
        node = NODE.get()
        assert node is not None
        for highest in () if self._is_unknowing(node) else self._acknowledged:
            if overlap(highest.bundle, term.bundle) and highest.epoch > term.epoch:
                self._fail(
                    "fencing",
                    f"{term.bundle}: acknowledged under epoch {term.epoch}, although {highest.bundle} had been "
                    f"acknowledged under epoch {highest.epoch}",
                )
        _raise_highest(self._acknowledged, term.bundle, term.epoch)

    def on_change(self, backend: MemoryBackend, change: Notification) -> None:
        if change.type is not NotificationType.DELETED and change.path.startswith(LOCAL_POLICIES):
            self._check_tiling(change.path, _value(backend, change.path))

    def serving(self) -> list[tuple[Node, OwnedBundle]]:
        """Return the terms that serve now, with their brokers."""
        return [(node, term) for node, term in self._serving.values() if term.active and term.may_acknowledge]

    # ---- what is demanded

    def _check_one_server(self, node: Node, term: OwnedBundle) -> None:
        for other, its in self._serving.values():
            if its is term or not overlap(its.bundle, term.bundle):
                continue
            if not other.alive or other.paused or not its.active or not its.may_acknowledge:
                continue
            if not self._is_unknowing(node) and not self._is_unknowing(other):
                self._fail(
                    "one server",
                    f"{node.name} serves {term.bundle} (epoch {term.epoch}) "
                    f"while {other.name} serves {its.bundle} (epoch {its.epoch})",
                )

    def _is_unknowing(self, node: Node) -> bool:
        return self._unknowing.get(node, 0.0) > self._loop.time()

    def _check_tiling(self, path: str, stored: Any) -> None:
        texts = stored["bundles"]["boundaries"]
        cuts = tuple(int(text, 16) for text in texts)
        if len(cuts) < 2 or cuts[0] != 0 or cuts[-1] != 0xFFFFFFFF or list(cuts) != sorted(set(cuts)):
            self._fail("tiling", f"{path}: {texts}")
        before = self._boundaries.get(path, ())
        if not set(before) <= set(cuts):
            self._fail("tiling", f"{path}: {texts} lost cuts of the version before")
        self.splits += bool(before) and len(cuts) > len(before)
        self._boundaries[path] = cuts

    def _check_epoch(self, node: Node, term: OwnedBundle) -> None:
        for highest in () if self._is_unknowing(node) else self._begun:
            if overlap(highest.bundle, term.bundle) and highest.epoch >= term.epoch:
                self._fail(
                    "epochs rise",
                    f"{node.name} serves {term.bundle} under epoch {term.epoch}, "
                    f"after {highest.bundle} was served under epoch {highest.epoch}",
                )
        _raise_highest(self._begun, term.bundle, term.epoch)

    def _fail(self, check: str, detail: str) -> None:
        error = SimulationError(check, detail)
        self._loop.failures.append(error)
        raise error


def _raise_highest(table: list[_Highest], bundle: Bundle, epoch: int) -> None:
    for highest in table:
        if highest.bundle == bundle:
            highest.epoch = max(highest.epoch, epoch)
            return
    table.append(_Highest(bundle, epoch))


def _value(backend: MemoryBackend, path: str) -> Any:
    record = backend.keys.get(path, session=None)
    assert record is not None
    return json.loads(record.value)


class RefereedBackend(MemoryBackend):
    """A metadata server that shows the referee every change as it is applied."""

    def __init__(self, referee: Referee, **options: Any) -> None:
        super().__init__(**options)
        self._referee = referee

    def _announce(self, change: Notification) -> None:
        super()._announce(change)
        self._referee.on_change(self, change)
