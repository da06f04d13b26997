"""The bundles of one giver, against a look at all of them."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pulsar_barycenter.load.shedding.least_disturbance.givers import Giver

WORK = st.sampled_from([0.0, 0.5, 1.0, 1.5, 2.0])
LIMIT = st.sampled_from([0.25, 0.75, 1.0, 1.75, 9.0])


@given(st.data(), st.lists(st.tuples(WORK, WORK, st.sampled_from([1.0, 1.25])), max_size=400))
def test_it_finds_the_bundles_that_fit_in_the_order_of_worth(
    data: st.DataObject, bundles: list[tuple[float, float, float]]
) -> None:
    recent, settled, cost = np.array(bundles).reshape(-1, 3).T
    giver = Giver(np.arange(len(bundles)), recent, settled, cost, 0.5)
    there = {at for at in range(len(bundles)) if max(bundles[at][:2]) > 0}

    def key(at: int) -> tuple[float, float, int]:
        fast, slow, price = bundles[at]
        return -0.5 * min(fast, slow) / price, max(fast, slow), at

    taken: list[int] = []
    for _ in range(data.draw(st.integers(0, 12))):
        heaviest = data.draw(LIMIT)
        fitting = sorted((at for at in there if max(bundles[at][:2]) <= heaviest), key=key)
        looks = data.draw(st.integers(0, 20))  # a search often ends before it has seen all
        found = [at for at, _ in zip(giver.in_order(heaviest), range(looks), strict=False)]
        assert found == fitting[:looks]
        assert list(giver.in_order(heaviest)) == fitting
        change = data.draw(st.sampled_from(["take", "give back", "nothing"]))
        if fitting and change == "take":
            at = data.draw(st.sampled_from(fitting))
            giver.take(at)
            there.remove(at)
            taken.append(at)
        elif taken and change == "give back":
            giver.give_back(at := taken.pop())
            there.add(at)
        assert set(np.flatnonzero(giver.there).tolist()) == there
