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
    """The groups on whose bookies a ledger is to be: those of `primary`, and of `secondary` if these are too few.

    Without any primary group, a ledger may be on all bookies.
    """

    primary: frozenset[str] = frozenset()
    secondary: frozenset[str] = frozenset()


ANYWHERE: Final = BookieGroups()


def preferred(bookies: Sequence[str], count: int, groups: BookieGroups, group_of: Mapping[str, str]) -> Sequence[str]:
    """Return the bookies among which those of a ledger are chosen, in their order; `group_of` has the group of each.

    They are the bookies of the primary groups; with fewer than `count`, those of the secondary ones as well; with still
    fewer, those without a group as well. Bookies of other groups are never among them.
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
    """Choose `count` bookies for a ledger out of `bookies`, the writable ones in random order. Those in `last_resort`
    are chosen only when all others are.

    Raises:
        TooFewBookiesError: there are fewer than `count`.
    """
    chosen = _spread([], (bookie for bookie in bookies if bookie not in last_resort), count, racks)
    chosen += _spread(chosen, (bookie for bookie in bookies if bookie in last_resort), count - len(chosen), racks)
    if len(chosen) < count:
        raise TooFewBookiesError(
            f"a ledger needs {count_of(count, 'writable bookie')}, and there are {len(chosen)}: start bookies, or lower"
            " the ensemble size; for a namespace with a bookie affinity group, those of its groups count"
        )
    return tuple(chosen)


def replace_failed(
    ensemble: tuple[str, ...], failed: AbstractSet[str], bookies: Iterable[str], racks: Mapping[str, str]
) -> tuple[str, ...]:
    """Return the ensemble with other writable bookies instead of failed ones, as far as there are any.

    `bookies` are in random order. Members that have not failed, and failed ones without a replacement, keep their
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
