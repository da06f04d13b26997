"""The orders in which shedders look at bundles: grouped by owner, heaviest first.

A stable sort of a million values takes longer than all else that a shedder does. So these functions sort only as many
values as the caller needs, by the fastest method, and order equal values afterwards. Owner and position are sorted as
one number, because numpy sorts numbers several times as fast as the positions of numbers.
"""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pulsar_barycenter.load.decisions import NO_LIMIT
from pulsar_barycenter.load.snapshot.load_snapshot import Flags, Floats, Indices, Integers, LoadSnapshot

_SAMPLED: Final = 64
_MORE: Final = 8
"""Of many values, one in _SAMPLED shows how great the greatest are; _MORE of these more than needed leave room for
chance."""
_NARROW: Final = 32
"""Numbers of at most this many bits are sorted in half of the time of wider ones."""


def heaviest_first(values: Floats, most: int = NO_LIMIT) -> Integers:
    """Return the positions of the `most` greatest `values`, greatest first, equal values in their order. No value may
    be NaN.
    """
    if len(values) // 2 <= most < len(values):
        return heaviest_first(values)[:most]
    if most == 1 < len(values):
        return np.array([values.argmax()], np.int64)
    if most < len(values):
        likely = _likely_heaviest(values, most)
        if most <= len(likely) <= len(values) // 2:
            return likely[heaviest_first(values[likely], most)]
        least = np.partition(values, len(values) - most)[len(values) - most] if most else np.inf
        heavier = np.flatnonzero(values > least)
        equal = np.flatnonzero(values == least)[: most - len(heavier)]
        return np.concatenate((heavier[heaviest_first(values[heavier])], equal))
    order = np.argsort(-values)
    ordered = values[order]
    equal = ordered[1:] == ordered[:-1]
    if not equal.any():
        return order
    starts = np.concatenate(([True], ~equal))
    tied = np.flatnonzero(~starts | np.concatenate((equal, [False])))
    # one integer that combines group and position sorts faster than two keys
    count = len(values)
    keys = np.sort(np.cumsum(starts)[tied] * count + order[tied])
    order[tied] = keys % count
    return order


def _likely_heaviest(values: Floats, most: int) -> Integers:
    """Return the positions of values that are at least as great as a limit, in their order. With luck these are about
    twice as many as `most`, so that a partition has little left to do. There are none if `values` are too few for that.
    """
    rank = 2 * most // _SAMPLED + _MORE
    sample = values[::_SAMPLED]
    if 4 * rank > len(sample):
        return np.zeros(0, np.int64)
    return np.flatnonzero(values >= np.partition(sample, len(sample) - rank)[len(sample) - rank])


def heaviest_values(values: Floats, most: int = NO_LIMIT) -> Floats:
    """Return the `most` greatest values, greatest first: the values at the positions of `heaviest_first`."""
    if most < len(values) // 2:
        values = np.partition(values, len(values) - most)[len(values) - most :]
    return np.sort(values)[::-1][:most]


def by_group(groups: Indices | Integers, count: int) -> tuple[Integers, Integers]:
    """Return the positions of `groups` sorted by group, and the indexes at which the groups begin in this order,
    followed by the total number. Equal groups keep their order.

    Groups are numbered from 0 to `count - 1`. The positions of group g are `order[edges[g] : edges[g + 1]]`, where
    `order` and `edges` are the two results.
    """
    bits = max(len(groups) - 1, 0).bit_length()
    kind: Any = np.uint32 if bits + (count - 1).bit_length() <= _NARROW else np.int64
    keys: NDArray[Any] = groups.astype(kind) << kind(bits) | np.arange(len(groups), dtype=kind)
    keys.sort()
    order = (keys & kind((1 << bits) - 1)).astype(np.int64)
    edges = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(groups, minlength=count), out=edges[1:])
    return order, edges


def sheddable_rows(snapshot: LoadSnapshot, sheds: Flags) -> Integers:
    """Return the rows of the bundles that may be shed (`BundleTable.may_shed`) and whose broker `sheds` flags. Rows are
    sorted by the name of the bundle.
    """
    bundles = snapshot.bundles
    if not len(bundles) or not sheds.any():
        return np.zeros(0, np.int64)
    return np.flatnonzero(bundles.may_shed & sheds[bundles.owner])
