"""Chooses bookies for a new ledger, and bookies that replace failed ones.

Any choice of distinct bookies is safe. This one spreads a ledger over racks: it prefers the bookie whose rack has fewer
bookies of the ledger. Among equals the random order of the caller decides.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet

from pulsar_barycenter.bookkeeper.errors import TooFewBookiesError
from pulsar_barycenter.naming.counted import count_of


def choose(bookies: Sequence[str], count: int, racks: Mapping[str, str]) -> tuple[str, ...]:
    """Choose `count` bookies for a ledger out of `bookies`, the writable ones in random order.

    Raises:
        TooFewBookiesError: there are fewer than `count`.
    """
    chosen = _spread([], bookies, count, racks)
    if len(chosen) < count:
        raise TooFewBookiesError(
            f"a ledger needs {count_of(count, 'writable bookie')}, and there are {len(chosen)}: start bookies, or lower"
            " the ensemble size"
        )
    return tuple(chosen)


def replace_failed(
    ensemble: tuple[str, ...], failed: AbstractSet[str], bookies: Iterable[str], racks: Mapping[str, str]
) -> tuple[str, ...]:
    """Return the ensemble with other writable bookies instead of failed ones, as far as there are any.

    `bookies` are in random order. Members that have not failed keep their position.
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
