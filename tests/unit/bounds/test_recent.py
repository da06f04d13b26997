"""A map that keeps the entries that were put last."""

from hypothesis import given
from hypothesis import strategies as st

from pulsar_barycenter.bounds.recent import Recent


def test_the_key_that_was_put_longest_ago_is_forgotten() -> None:
    recent: Recent[str, int] = Recent(2)
    recent.put("a", 1)
    recent.put("b", 2)
    assert recent.get("a") == 1, "reading makes nothing newer"
    recent.put("a", 3)
    recent.put("c", 4)
    assert list(recent.items()) == [("a", 3), ("c", 4)]
    assert recent.get("b") is None
    assert "b" not in recent


def test_what_is_taken_out_makes_room() -> None:
    recent: Recent[str, int] = Recent(1)
    recent.put("a", 1)
    assert recent.pop("a") == 1
    assert recent.pop("a") is None
    recent.put("b", 2)
    assert len(recent) == 1
    recent.clear()
    assert len(recent) == 0


@given(st.lists(st.tuples(st.integers(0, 9), st.integers())), st.integers(1, 5))
def test_it_keeps_the_last_keys_that_were_put(puts: list[tuple[int, int]], most: int) -> None:
    recent: Recent[int, int] = Recent(most)
    for key, value in puts:
        recent.put(key, value)
    last = list(dict.fromkeys(key for key, _ in reversed(puts)))[:most]
    assert list(recent.items()) == [(key, dict(puts)[key]) for key in reversed(last)]
