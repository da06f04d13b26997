"""The heap of brokers against the search of all values by numpy."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pulsar_barycenter.load.shedding.least_disturbance.roomiest import Roomiest

VALUES = st.sampled_from([-np.inf, -1.0, -0.0, 0.0, 0.25, 0.5, 1.0, np.inf])


@given(st.data(), st.lists(VALUES, min_size=1, max_size=24))
def test_it_finds_what_a_look_at_all_values_finds(data: st.DataObject, first: list[float]) -> None:
    values, rows = np.array(first), st.integers(0, len(first) - 1)
    roomiest = Roomiest(values)
    for _ in range(data.draw(st.integers(0, 12))):
        if data.draw(st.booleans()):
            row, value = data.draw(rows), data.draw(VALUES)
            values[row] = value
            roomiest.set(row, value)
        may = np.array(data.draw(st.lists(st.booleans(), min_size=len(values), max_size=len(values))))
        other = data.draw(st.one_of(st.just(-1), rows))
        allowed = np.where(may & (np.arange(len(values)) != other), values, -np.inf)
        found, value = roomiest.among(may, other)
        assert value == allowed.max()
        if value > -np.inf:
            assert found == int(allowed.argmax())
        assert roomiest.highest == values.max()
