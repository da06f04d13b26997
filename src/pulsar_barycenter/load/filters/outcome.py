"""What a filter is asked and answers.

A filter only removes: what it keeps is a subset of the candidates it was given. Candidates are flags over the rows of
`LoadSnapshot.brokers`.
"""

from collections.abc import Callable, Sequence
from itertools import repeat

import msgspec
import numpy as np

from pulsar_barycenter.load.reasons import Alternative, Code, Compared, of_figures
from pulsar_barycenter.load.snapshot.load_snapshot import Flags, Floats, Integers, namespace_of

Comparisons = Callable[[Sequence[int]], Sequence[Compared]]
"""What was compared of the brokers in some rows; asked only if somebody shall be told of them."""


class FilterFailedError(Exception):
    """The filter could not judge the candidates; the text says why."""


class PlacementRequest(msgspec.Struct, frozen=True, gc=False):
    """The bundle to place; `non_persistent` says that it holds non-persistent topics. `namespace` is the bundle's."""

    bundle: str
    non_persistent: bool = False
    namespace: str = ""

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "namespace", namespace_of(self.bundle))


class FilterOutcome(msgspec.Struct, frozen=True, gc=False):
    """`kept` of the candidates `among`; how many have `gone`, and why.

    `codes` say it of the brokers in these rows, the first that names a row, and `code` of all others; `compared`, if
    anything was, by which figures. `note` is told whoever is chosen. `ignored`: the filter would have left nobody, so
    it kept all. `counted` is how many it kept, if it counted them.
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
        """How many are kept."""
        return int(np.count_nonzero(self.kept)) if self.counted is None else self.counted

    def alternatives(self, names: Sequence[str], brokers: Sequence[int]) -> list[Alternative]:
        """Say why the brokers in these rows, of those of all `names`, were removed."""
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
    """Return that the figures of these brokers stand in a relation to `limit`, a name and a figure."""
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
    """Return that of the candidates `among` these are kept."""
    left = int(np.count_nonzero(kept))
    gone = int(np.count_nonzero(among)) - left
    return FilterOutcome(among, kept, gone, code, settings, compared, codes, note, counted=left)
