"""A growing map equals the dictionary of its additions, whichever map it grew from."""

from hypothesis import given
from hypothesis import strategies as st

from pulsar_barycenter.load.growing_map import GrowingMap

KEYS = st.integers(0, 5)


@given(
    first=st.dictionaries(KEYS, st.integers(1, 9)),
    steps=st.lists(st.tuples(st.integers(0, 30), KEYS, st.integers(1, 9)), max_size=30),
)
def test_maps_that_grew_from_one_another_are_those_made_anew(
    first: dict[int, int], steps: list[tuple[int, int, int]]
) -> None:
    """Most grow from the latest one, some from one that others grew from before."""
    grown: list[tuple[GrowingMap[int, int], dict[int, int]]] = [(GrowingMap(first), dict(first))]
    for back, key, value in steps:
        before, expected = grown[max(0, len(grown) - 1 - max(0, back - 20))]
        grown.append((before.adding(key, value), {**expected, key: value}))
    for found, expected in grown:
        assert dict(found) == expected
        assert sorted(found) == sorted(expected)
        assert (len(found), bool(found)) == (len(expected), bool(expected))
        assert found.most >= len(found)
        for key in range(7):
            assert (key in found, found.get(key), found.get_or_none(key)) == (
                key in expected,
                expected.get(key),
                expected.get(key),
            )
