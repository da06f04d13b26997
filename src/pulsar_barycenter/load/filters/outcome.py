"""The contract of a filter: its request and its outcome.

A filter only removes: it keeps a subset of the candidates that it gets. Candidates are flags over the rows of
`LoadSnapshot.brokers`.
"""

from collections.abc import Callable, Sequence
from itertools import repeat

import msgspec
import numpy as np

from pulsar_barycenter.load.reasons import Alternative, Code, Compared, of_figures
from pulsar_barycenter.load.snapshot.load_snapshot import Flags, Floats, Integers, namespace_of

Comparisons = Callable[[Sequence[int]], Sequence[Compared]]
"""Returns the comparison for each broker in these rows; called only to explain the outcome."""


class FilterFailedError(Exception):
    """The filter could not examine the candidates; the text says why."""


class PlacementRequest(msgspec.Struct, frozen=True, gc=False):
    """The bundle to place and its `namespace`. `non_persistent` True: the bundle has non-persistent topics."""

    bundle: str
    non_persistent: bool = False
    namespace: str = ""

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "namespace", namespace_of(self.bundle))


class FilterOutcome(msgspec.Struct, frozen=True, gc=False):
    """The result of a filter: `among` flags the candidates, `kept` those that remain. `gone` is the number of
    candidates that the filter removed.

    The reason why a broker was removed is the first code in `codes` whose flag is set for the broker; if none is set,
    it is `code`. `compared` is a function that returns the numbers that were compared for given brokers; None: no
    numbers were compared. `note` is a text for the reason of the placement, whichever broker is chosen. `ignored` is
    True if the filter would have removed every candidate, and for this reason removed none. `counted` is the number of
    brokers kept; None: it has not been counted.
    """

    among: Flags
    kept: Flags
    gone: int
    code: Code
    settings: tuple[str, ...] = ()
    compared: Comparisons | None = None
    codes: tuple[tuple[Flags, Code], ...] = ()
    note: str = ""
    ignored: bool = False
    counted: int | None = None

    @property
    def left(self) -> int:
        """The number of brokers that the filter kept."""
        return int(np.count_nonzero(self.kept)) if self.counted is None else self.counted

    def alternatives(self, names: Sequence[str], brokers: Sequence[int]) -> list[Alternative]:
        """Return for each broker in `brokers` (rows) why the filter removed it. `names` are the names of all brokers,
        by row.
        """
        compared = repeat(None) if self.compared is None else self.compared(brokers)
        codes = [self.code] * len(brokers)
        for rows, code in reversed(self.codes):
            codes = [code if rows[row] else before for row, before in zip(brokers, codes, strict=True)]
        return list(map(Alternative, [names[row] for row in brokers], codes, compared))


def compare(
    brokers: Sequence[int],
    what: str,
    figures: Floats | Integers,
    relation: str,
    limit: tuple[str, float],
    unit: str = "",
) -> list[Compared]:
    """Return one comparison for each broker in `brokers` (rows): its value in `figures`, a column over all brokers,
    with a limit. `what` names the value, `relation` is the relation of the two (such as ">"), and `limit` is the name
    and the value of the limit.
    """
    return of_figures(what, map(float, map(figures.item, brokers)), relation, *limit, unit)


def narrowed(
    among: Flags,
    kept: Flags,
    code: Code,
    settings: tuple[str, ...] = (),
    compared: Comparisons | None = None,
    codes: tuple[tuple[Flags, Code], ...] = (),
    note: str = "",
) -> FilterOutcome:
    """Return the outcome of a filter that keeps the brokers `kept` of the candidates `among` and removes the others.
    The other arguments are the fields of `FilterOutcome` with the same names.
    """
    left = int(np.count_nonzero(kept))
    gone = int(np.count_nonzero(among)) - left
    return FilterOutcome(among, kept, gone, code, settings, compared, codes, note, counted=left)
