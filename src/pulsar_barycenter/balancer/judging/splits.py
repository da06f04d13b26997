"""Which bundles a round splits: those that the splitter of the modular load manager chooses, within the cap. Pure.

The limits are the cluster's own, `loadBalancerNamespaceBundleMax…`. A bundle whose split was tried within the hour
waits: its owner may have found no hash, or the reports do not have the parts yet.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from pulsar_barycenter.balancer.options import HOUR_MS
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.load.managers import ManagerKind
from pulsar_barycenter.load.reasons import render
from pulsar_barycenter.load.snapshot.load_snapshot import LoadSnapshot
from pulsar_barycenter.load.splitting.splitter import no_boundaries
from pulsar_barycenter.load.strategies import splitter_of
from pulsar_barycenter.naming.bundle import Bundle
from pulsar_barycenter.naming.counted import count_of
from pulsar_barycenter.naming.errors import InvalidNameError
from pulsar_barycenter.naming.namespace import is_broker_bound
from pulsar_barycenter.operations.splitting import PlannedSplit, SplitEntry, SplitState

_MAX_WHOLE: Final = 1_000
"""The number of bundles that stay whole whose reason is kept."""


@dataclass(frozen=True, slots=True)
class DecidedSplits:
    """The splits of a round, and why other bundles that are too large stay whole, by bundle."""

    splits: tuple[PlannedSplit, ...] = ()
    whole: dict[str, str] = field(default_factory=dict)

    def namespaces(self) -> frozenset[str]:
        """Return the namespaces of the bundles to split."""
        return frozenset(split.bundle.rpartition("/")[0] for split in self.splits)


@dataclass(frozen=True, slots=True)
class SplitRoom:
    """How many splits may begin now (`left`). The bundles in `tried` must not be split, because a split of them began
    within the last hour.
    """

    per_hour: int
    begun: int = 0
    tried: frozenset[str] = frozenset()

    @property
    def left(self) -> int:
        """The number of splits that may begin now."""
        return max(0, self.per_hour - self.begun)


def split_room(entries: Iterable[SplitEntry], per_hour: int, *, now_ms: int) -> SplitRoom:
    """Return how many splits may begin now, if at most `per_hour` may begin in an hour: the splits that began within
    the last hour, according to the entries of the journal, are subtracted.
    """
    lately = [entry for entry in entries if now_ms - entry.at < HOUR_MS]
    begun = sum(entry.state is SplitState.BEGUN for entry in lately)
    return SplitRoom(per_hour, begun, frozenset(entry.bundle for entry in lately))


def decide_splits(
    snapshot: LoadSnapshot,
    config: BrokerConfig,
    counts: Mapping[str, int],
    room: SplitRoom,
    unreadable: Mapping[str, str],
) -> DecidedSplits:
    """Return the splits of a round, and, for other bundles that are too large, why they are not split.

    `counts` maps namespaces to their present number of bundles; for a namespace that is not in it, the bundles in the
    snapshot are counted. `unreadable` maps a namespace whose number of bundles could not be read to the reason: its
    bundles are not split.
    """
    if len(snapshot.brokers) < 2:  # as a leader does
        return DecidedSplits()
    splitter = splitter_of(config, ManagerKind.MODULAR)
    plan, _ = splitter.decide(snapshot, counts, no_boundaries, splitter.start())
    chosen: list[PlannedSplit] = []
    whole: dict[str, str] = {}
    for split in plan:
        why = _stays_whole(split.bundle, room, len(chosen), unreadable)
        if not why:
            chosen.append(PlannedSplit(bundle=split.bundle, broker=split.broker, sentence=render(split.reason)))
        elif len(whole) < _MAX_WHOLE:
            whole[split.bundle] = why
    refusals = islice(plan.refusals(), _MAX_WHOLE - len(whole))
    return DecidedSplits(tuple(chosen), whole | {refusal.subject: render(refusal.reason) for refusal in refusals})


def _stays_whole(bundle: str, room: SplitRoom, chosen: int, unreadable: Mapping[str, str]) -> str:
    if is_bound(bundle):
        return "its namespace is that of a single broker, or its name is not valid"
    if bundle in room.tried:
        return "its split was tried within the hour"
    if chosen >= room.left:
        return f"{count_of(room.begun + chosen, 'split')} within the hour, and --splits-per-hour is {room.per_hour:,}"
    return unreadable.get(bundle.rpartition("/")[0], "")


def is_bound(bundle: str) -> bool:
    """Return whether a bundle is of a broker's own namespace, so that it cannot move to another broker, or has no valid
    name.
    """
    try:
        return is_broker_bound(Bundle.parse(bundle).namespace)
    except InvalidNameError:
        return True


def immovable(splits: Collection[PlannedSplit], entries: Iterable[SplitEntry]) -> dict[str, str]:
    """Return a mapping from bundle to the reason why it must not move: `splits` of this round splits it, or its last
    entry in the journal is a split that has begun or succeeded. Reports may still list a bundle that was split.
    """
    last = {entry.bundle: entry.state for entry in entries}
    gone = {bundle: "it was split" for bundle, state in last.items() if state is not SplitState.FAILED}
    return gone | {split.bundle: "it is split in this round" for split in splits}
