"""Finds splits of bundles between two looks, and says why a bundle was split, as far as it can be told. Pure.

A bundle was split if it no longer exists, and two or more bundles that exist now together cover exactly its range. The
first row that applies gives the reason:

| the split | basis | agrees |
|---|---|---|
| the journal of `balance` has it | journal | - |
| the cluster's own splitting was off, or its splitter is not recomputed (extensible, simple load manager) | seen | - |
| the splitter of the modular load manager, on the load of the last look, splits this bundle | recomputed | yes |
| it does not | recomputed | no |
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pulsar_barycenter.balancer.judging.splits import SplitRoom, decide_splits
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.html_pages.reasons import short_reason
from pulsar_barycenter.load.managers import ManagerKind, manager_in_force
from pulsar_barycenter.load.snapshot.document import SnapshotDocument
from pulsar_barycenter.naming.bundle import Bundle, BundleRange
from pulsar_barycenter.naming.errors import InvalidNameError
from pulsar_barycenter.watch.why_moved import Basis, Why

SPLITTING_ENABLED_KEY: Final = "loadBalancerAutoBundleSplitEnabled"
_ANY: Final = SplitRoom(per_hour=1_000_000)
_MAX_NAMED: Final = 3
"""The number of parts that a sentence names."""


@dataclass(frozen=True, slots=True)
class SplitSeen:
    """A split that was seen: a bundle that `broker` served, and the bundles (`parts`) that cover its range now."""

    bundle: str
    broker: str
    parts: tuple[str, ...]


def splits_seen(known: Mapping[str, str], owners: Mapping[str, str]) -> list[SplitSeen]:
    """Return the bundles that were split, sorted by name: those that have no owner any more, and whose range is covered
    by several other bundles. `known` maps each bundle to the owner that was seen last, `owners` each bundle to its
    present owner.
    """
    gone = sorted(known.keys() - owners.keys())
    if not gone or owners.keys() <= known.keys():
        return []
    present = _ranges(owners, {bundle.rpartition("/")[0] for bundle in gone})
    found = []
    for bundle in gone:
        parts = _covering(bundle, present.get(bundle.rpartition("/")[0], {}))
        if len(parts) > 1:
            found.append(SplitSeen(bundle, known[bundle], parts))
    return found


def _ranges(owners: Mapping[str, str], namespaces: set[str]) -> dict[str, dict[int, tuple[BundleRange, str]]]:
    """Return for each of `namespaces` a mapping from the lower end of each of its bundles in `owners` to the bundle's
    range and name.
    """
    found: dict[str, dict[int, tuple[BundleRange, str]]] = {}
    for name in owners:
        namespace = name.rpartition("/")[0]
        if namespace in namespaces and (range_ := _range(name)) is not None:
            found.setdefault(namespace, {})[range_.lower] = range_, name
    return found


def _range(bundle: str) -> BundleRange | None:
    try:
        return Bundle.parse(bundle).range
    except InvalidNameError:
        return None


def _covering(bundle: str, present: Mapping[int, tuple[BundleRange, str]]) -> tuple[str, ...]:
    """Return the bundles in `present` (by lower end, see `_ranges`) that together cover exactly the range of `bundle`;
    an empty tuple if there are no such bundles.
    """
    whole, parts = _range(bundle), []
    if whole is None:
        return ()
    at = whole.lower
    while at < whole.upper:
        range_, name = present.get(at, (None, ""))
        if range_ is None or range_.upper > whole.upper:
            return ()
        parts.append(name)
        at = range_.upper
    return tuple(parts)


def why_split(
    split: SplitSeen, before: SnapshotDocument | None, config: BrokerConfig, journal: Mapping[str, str]
) -> Why:
    """Return why a bundle was split. `before` is the load at the look before the split, None if there was none.
    `journal` maps a bundle to the reason in the journal of `barycenter balance`.
    """
    into = _into(split.parts)
    if (said := journal.get(split.bundle)) is not None:
        return Why(Basis.JOURNAL, f"barycenter balance split it {into}: {said}", f"balance: {short_reason(said)}")
    if not (config.load_balancer_auto_bundle_split_enabled and config.load_balancer_enabled):
        return _seen(
            f"it was split {into}; the cluster's own splitting was off ({SPLITTING_ENABLED_KEY}=false), so a person or "
            "a program split it"
        )
    if before is None or manager_in_force(config) is not ManagerKind.MODULAR:
        return _seen(f"it was split {into}; the splitter of this load manager is not recomputed")
    decided = decide_splits(before.snapshot(), config, {}, _ANY, {})
    made = next((one.sentence for one in decided.splits if one.bundle == split.bundle), "")
    if made:
        return Why(Basis.RECOMPUTED, f"it was split {into}: {made}", short_reason(made), agrees=True)
    why = decided.whole.get(split.bundle, "no load of it is above the cluster's limits for a bundle")
    sentence = f"it was split {into}, and the recomputed splitter leaves it whole: {why}"
    return Why(Basis.RECOMPUTED, sentence, f"the splitter leaves it whole: {short_reason(why)}", agrees=False)


def _seen(sentence: str) -> Why:
    return Why(Basis.SEEN, sentence, sentence)


def _into(parts: tuple[str, ...]) -> str:
    named = [part.rpartition("/")[2] for part in parts]
    if len(named) > _MAX_NAMED:
        return f"into {len(named)} parts"
    return f"into {', '.join(named[:-1])} and {named[-1]}"
