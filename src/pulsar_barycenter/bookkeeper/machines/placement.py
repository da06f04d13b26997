"""Chooses bookies for a new ledger, and bookies that replace failed ones.

Any choice of distinct bookies is safe. This one spreads a ledger over racks: it prefers the bookie whose rack has fewer
bookies of the ledger. Among equals the random order of the caller decides. For a ledger that is to be on some groups of
bookies, `preferred` first leaves out the bookies of other groups.

Source: Pulsar's `IsolatedBookieEnsemblePlacementPolicy`.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final

from pulsar_barycenter.bookkeeper.errors import TooFewBookiesError
from pulsar_barycenter.naming.counted import count_of


@dataclass(frozen=True, slots=True)
class BookieGroups:
    """The groups of bookies on which a ledger may be: the groups in `primary`, and, if these have fewer bookies than
    the ledger needs, those in `secondary` as well.

    If `primary` is empty, the ledger may be on any bookie.
    """

    primary: frozenset[str] = frozenset()
    secondary: frozenset[str] = frozenset()


ANYWHERE: Final = BookieGroups()


def preferred(bookies: Sequence[str], count: int, groups: BookieGroups, group_of: Mapping[str, str]) -> Sequence[str]:
    """Return those of `bookies` among which the bookies of a ledger may be chosen, in the order of `bookies`;
    `group_of` maps a bookie to its group.

    The result has the bookies of the primary groups. If they are fewer than `count`, it also has those of the secondary
    groups; if it still has fewer than `count`, also those that have no group. Bookies of other groups are never in the
    result. If there is no primary group, the result is `bookies`.
    """
    if not groups.primary:
        return bookies
    found: list[str] = []
    for wanted in (groups.primary, groups.primary | groups.secondary, groups.primary | groups.secondary | {""}):
        found = [bookie for bookie in bookies if group_of.get(bookie, "") in wanted]
        if len(found) >= count:
            break
    return found


def choose(
    bookies: Sequence[str], count: int, racks: Mapping[str, str], *, last_resort: AbstractSet[str] = frozenset()
) -> tuple[str, ...]:
    """Choose `count` bookies for a ledger out of `bookies`, which are writable and in random order; `racks` maps a
    bookie to its rack, and the choice is spread over racks. Bookies in `last_resort` are chosen only if there are too
    few others.

    Raises:
        TooFewBookiesError: there are fewer than `count` bookies.
    """
    chosen = _spread([], (bookie for bookie in bookies if bookie not in last_resort), count, racks)
    chosen += _spread(chosen, (bookie for bookie in bookies if bookie in last_resort), count - len(chosen), racks)
    if len(chosen) < count:
        raise TooFewBookiesError(
            f"a ledger needs {count_of(count, 'writable bookie')}, and there are {len(chosen)}: start bookies, or lower"
            " the ensemble size; for a namespace with a bookie affinity group, only the bookies of its groups and "
            "those without a group count"
        )
    return tuple(chosen)


def replace_failed(
    ensemble: tuple[str, ...], failed: AbstractSet[str], bookies: Iterable[str], racks: Mapping[str, str]
) -> tuple[str, ...]:
    """Return the ensemble with each member in `failed` replaced by one of `bookies`, which are writable and in random
    order. `racks` maps a bookie to its rack; the members are spread over racks.

    If there are fewer bookies than failed members, the other failed members stay. Every member that stays keeps its
    position.
    """
    spare = [bookie for bookie in bookies if bookie not in ensemble and bookie not in failed]
    kept = [member for member in ensemble if member not in failed]
    fresh = _spread(kept, spare, len(ensemble) - len(kept), racks)
    return tuple(fresh.pop(0) if member in failed and fresh else member for member in ensemble)


def _spread(kept: Sequence[str], bookies: Iterable[str], count: int, racks: Mapping[str, str]) -> list[str]:
    rack_of: Callable[[str], str] = lambda bookie: racks.get(bookie, "")  # noqa: E731
    used = Counter(map(rack_of, kept))
    left = list(dict.fromkeys(bookies))
    chosen: list[str] = []
    while left and len(chosen) < count:
        best = min(left, key=lambda bookie: used[rack_of(bookie)])
        left.remove(best)
        used[rack_of(best)] += 1
        chosen.append(best)
    return chosen
