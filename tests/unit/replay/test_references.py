"""References: what greedy balancers with perfect knowledge would do."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pulsar_barycenter.lab.benches.front import dominates, not_dominated
from pulsar_barycenter.replay.references import LEAST_GAIN, OF_DAYS, REFERENCES, ActualLoad, Reference, best_moves
from pulsar_barycenter.replay.scenario import NONE, OURS, catalogue, run_case


def truth(seed: int, brokers: int = 4, bundles: int = 12, steps: int = 3) -> ActualLoad:
    """Return a cluster whose last broker is gone, and one bundle without an owner."""
    drawn = np.random.default_rng(seed)
    live = np.ones(brokers, bool)
    live[-1] = False
    owner = drawn.integers(0, brokers - 1, bundles)
    owner[0] = -1
    wanted = drawn.lognormal(0.0, 1.0, (steps, 3, bundles)) * 4
    return ActualLoad(wanted, drawn.uniform(50, 150, (3, brokers)), np.full((3, brokers), 1.0), owner, live)


def evenness(of: ActualLoad, owner: np.ndarray) -> float:
    """The smoothed greatest usage, added up bundle by bundle."""
    steps = len(of.wanted)
    total = 0.0
    for step in range(steps):
        usages = []
        for broker in np.flatnonzero(of.live):
            load = of.base[:, broker] + of.wanted[step][:, owner == broker].sum(axis=1)
            usages.append((load / of.limit[:, broker]).max())
        total += sum(usage**16 for usage in usages) ** (1 / 16) / steps
    return total


@given(st.integers(0, 10_000), st.integers(0, 6))
def test_each_move_evens_out_by_what_it_has_to_and_none_is_made_of_what_is_not_there(seed: int, most: int) -> None:
    of = truth(seed)
    moves, owner = best_moves(of, most), of.owner.copy()
    assert len(moves) <= most
    for bundle, broker in moves:
        assert of.live[broker]
        assert owner[bundle] not in (-1, broker)
        before = evenness(of, owner)
        owner[bundle] = broker
        assert evenness(of, owner) <= before - LEAST_GAIN + 1e-9


def test_of_four_full_brokers_and_an_empty_one_each_gives_its_share() -> None:
    wanted = np.full((1, 3, 20), 0.15)
    of = ActualLoad(wanted, np.ones((3, 5)), np.zeros((3, 5)), np.repeat(np.arange(4), 5), np.ones(5, bool))
    moves = best_moves(of, 100)
    assert sorted(of.owner[bundle] for bundle, _ in moves) == [0, 1, 2, 3]
    assert {broker for _, broker in moves} == {4}


def test_who_knows_the_next_hour_moves_before_the_load_comes() -> None:
    """Of two brokers one carries bundles that rise; now there is nothing to see."""
    now, later = np.full((1, 3, 4), 0.1), np.full((3, 3, 4), 0.1)
    later[1:, :, :2] = 0.4
    owner, live = np.array([0, 0, 1, 1]), np.ones(2, bool)
    assert best_moves(ActualLoad(now, np.ones((3, 2)), np.zeros((3, 2)), owner, live), 9) == []
    assert best_moves(ActualLoad(later, np.ones((3, 2)), np.zeros((3, 2)), owner, live), 9) != []


def test_moves_an_hour_are_bounded() -> None:
    assert REFERENCES["greedy-12"].at_once == 2
    assert Reference("x", "x", 1, 1, 3).at_once == 1
    assert REFERENCES["foresight"].at_once > 100


def test_a_reference_replays_a_scenario_and_leaves_less_regret_than_doing_nothing() -> None:
    case = catalogue()["one-twice-as-strong"]
    nothing = run_case(case, NONE, 1)
    for name in REFERENCES:
        found = run_case(case, name, 1)
        assert found.unloads > 0
        assert found.regret < nothing.regret


def test_a_strategy_is_dominated_by_less_of_one_and_no_more_of_the_other() -> None:
    def figures(regret: float, unloads: float) -> dict[str, float]:
        return {"regret": regret, "unloads": unloads}

    assert dominates(figures(1, 2), figures(1, 3))
    assert dominates(figures(1, 2), figures(2, 2))
    assert not dominates(figures(1, 2), figures(1, 2))
    assert not dominates(figures(1, 2), figures(0, 3))
    of = {OURS: figures(0, 0), NONE: figures(0, 0), "foresight": figures(0, 0)}
    of |= {"A": figures(1, 2), "B": figures(3, 1), "C": figures(2, 9)}
    assert not_dominated([figures(1, 2), figures(3, 2)], of) == (["A"], ["B"])


def test_a_resting_bundle_stays() -> None:
    wanted = np.full((1, 3, 4), 0.2)
    of = ActualLoad(wanted, np.ones((3, 2)), np.zeros((3, 2)), np.zeros(4, np.int64), np.ones(2, bool))
    assert sorted(bundle for bundle, _ in best_moves(of, 9, resting=[0, 1, 2])) == [3]
    assert best_moves(of, 9, resting=range(4)) == []


def test_a_reference_sees_the_future_or_the_mean_of_the_past() -> None:
    assert Reference("x", "x", 6, 2).steps(7, 12) == [7, 9, 11]
    assert Reference("x", "x", 1, 1, mean_of=3).steps(7, 12) == [5, 6, 7]
    assert Reference("x", "x", 1, 1, mean_of=3).steps(0, 12) == [0]
    assert [each.at_once for each in OF_DAYS.values()] == [2, 5, 1]
