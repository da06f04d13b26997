"""AckedRanges behaves as a set of entries."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from pulsar_barycenter.ledger.managed.acked_ranges import AckedRanges

ENTRIES = st.tuples(st.integers(0, 2), st.integers(0, 12))
STEPS = st.lists(st.tuples(st.sampled_from(["add", "through", "take"]), ENTRIES), max_size=80)


@given(STEPS)
def test_ranges_hold_what_a_set_holds(steps: list[tuple[str, tuple[int, int]]]) -> None:
    """Adding, cutting a prefix and taking the first range leave the same entries as in a set, in merged ranges."""
    ranges, model = AckedRanges(), set[tuple[int, int]]()
    for step, (ledger, entry) in steps:
        if step == "add":
            assert ranges.add(ledger, entry) == ((ledger, entry) not in model)
            model.add((ledger, entry))
        elif step == "through":
            ranges.remove_through(ledger, entry)
            model = {known for known in model if known > (ledger, entry)}
        else:
            firsts = sorted(known for known in model if known[0] == ledger)
            taken = ranges.take_from(ledger, entry)
            if firsts and firsts[0] == (ledger, entry):
                assert taken is not None
                assert {(ledger, e) for e in range(entry, taken + 1)} <= model
                assert (ledger, taken + 1) not in model
                model -= {(ledger, e) for e in range(entry, taken + 1)}
            else:
                assert taken is None
        listed = list(ranges)
        assert {(known, e) for known, first, last in listed for e in range(first, last + 1)} == model
        assert listed == sorted(listed)
        assert all(a[0] != b[0] or a[2] + 1 < b[1] for a, b in pairwise(listed))
        assert ranges.entries == len(model)
        assert all(ranges.contains(known, e) == ((known, e) in model) for known in range(3) for e in range(14))
