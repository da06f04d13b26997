"""The demand of recorded samples, computed by arrays, and by the same rule one sample after the other."""

import itertools
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pulsar_barycenter.naming.bundle import Bundle
from pulsar_barycenter.replay.inputs.recorded import SILENCE_MS, Samples, Usages, recording, smallest

START_MS = 1_700_000_040_000
EDGES = ("00000000", "40000000", "80000000", "c0000000", "ffffffff")
BUNDLES = [f"public/a/0x{lower}_0x{upper}" for i, lower in enumerate(EDGES) for upper in EDGES[i + 1 :]]
NESTED = [BUNDLES[i] for i in (0, 1, 3, 4, 7, 8, 9)] + ["public/b/0x00000000_0xffffffff"]
NO_USAGE: Any = Usages([], *(np.zeros(0) for _ in range(8)))

rows_of_samples = st.lists(
    st.tuples(st.sampled_from(NESTED), st.sampled_from(["a:1", "b:1"]), st.integers(0, 100), st.integers(1, 9)),
    max_size=40,
)
STEADY = [("public/c/0x00000000_0xffffffff", "c:1", half_minutes, 1) for half_minutes in range(0, 101, 25)]
"""Keeps the history from having gaps."""


def one_after_the_other(samples: Samples, start_ms: int, steps: int, step_ms: int) -> dict[str, list[float]]:
    """Return the rate in of each of the smallest bundles at each step."""
    leaves = smallest(sorted(set(samples.bundle)))
    told: dict[str, list[int]] = {}
    for row in np.lexsort((samples.at_ms, np.array(samples.bundle))).tolist():
        told.setdefault(samples.bundle[row], []).append(row)
    at = samples.at_ms.tolist()
    first = {bundle: at[rows[0]] for bundle, rows in told.items()}
    found = {leaf: [0.0] * steps for parts in leaves.values() for leaf, _ in parts}
    for bundle, rows in told.items():
        parts = dict(leaves[bundle])
        known = [other for other in told if parts.keys() & dict(leaves[other]).keys()]
        for place, row in enumerate(rows):
            is_last = row == rows[-1]
            until = at[row] + SILENCE_MS if is_last else min(at[rows[place + 1]], at[row] + SILENCE_MS)
            until = min([until, *(first[leaf] for leaf in parts if leaf != bundle and first.get(leaf, 0) > at[row])])
            is_first = at[row] <= min(first[other] for other in known) and at[row] < start_ms + SILENCE_MS
            begin = 0 if is_first else (at[row] - start_ms) // step_ms
            end = max(begin + 1, -((start_ms - until) // step_ms)) if is_last else (until - start_ms) // step_ms
            for leaf, share in parts.items():
                for step in range(begin, min(end, steps)):
                    found[leaf][step] = float(samples.figures[0, row]) * share
    return found


@given(rows_of_samples, st.sampled_from([7_000, 60_000]))
def test_samples_count_as_the_rule_says(drawn: list[tuple[str, str, int, int]], step_ms: int) -> None:
    """A row is a bundle, its reporting broker, the half minutes after the start, and a rate."""
    rows = [*drawn, *STEADY]
    samples = Samples(
        [row[0] for row in rows],
        [row[1] for row in rows],
        np.array([START_MS + 30_000 * row[2] for row in rows]),
        np.array([[row[3]] * 4 for row in rows], float).T,
        np.full(len(rows), 2),
        np.full(len(rows), 4),
    )
    demand = recording(samples, NO_USAGE, step_ms=step_ms).demand
    expected = one_after_the_other(samples, demand.start_ms, demand.steps, step_ms)
    smallest_first = sorted(expected)
    assert demand.rate_in.T.tolist() == [expected[name] for name in smallest_first]
    begun = [demand.bundles[place] for place in demand.bundle_of.tolist()]
    assert set(begun) == set(demand.bundles)
    first: dict[str, int] = {}
    for bundle, at_ms in zip(samples.bundle, samples.at_ms.tolist(), strict=True):
        first[bundle] = min(first.get(bundle, at_ms), at_ms)
    ranges = {name: Bundle.parse(name) for name in {*begun, *smallest_first}}
    for name, whole in zip(smallest_first, begun, strict=True):
        assert ranges[whole].range.lower <= ranges[name].range.lower < ranges[name].range.upper
        assert ranges[name].range.upper <= ranges[whole].range.upper
        assert name == whole or first[whole] <= first.get(name, first[whole])
    for one, other in itertools.pairwise(sorted(set(begun), key=lambda name: (name.rpartition("/")[0], name))):
        if one.rpartition("/")[0] == other.rpartition("/")[0]:
            assert ranges[one].range.upper <= ranges[other].range.lower
