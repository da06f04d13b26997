"""The scenarios of balance-bench have the expected outcomes with their first seed."""

import pickle
from pathlib import Path

import msgspec
import pytest

from pulsar_barycenter.replay.references import REFERENCES
from pulsar_barycenter.replay.scenario import BENCHED, EVERY, NONE, Case, Expected, catalogue, run_case
from support.short_forms import params

CASES = catalogue()
PAGE = (Path(__file__).parents[3] / "docs" / "balance-bench.md").read_text()
FEW = ("AvgShedder", "simple")
"""Who stands for every strategy here; balance-bench runs all."""


def figures(case: Case, strategy: str) -> dict[str, float]:
    found = msgspec.structs.asdict(run_case(case, strategy, 1))
    return {name: value for name, value in found.items() if isinstance(value, int | float)}


@pytest.mark.drawn(7)
@pytest.mark.parametrize("case", params(CASES, short=CASES.keys() - {"daily-swing"}))
def test_a_scenario_goes_as_expected(case: Case) -> None:
    wanted = {name for each in case.expected for name in (each.strategy, each.than) if name} - {EVERY}
    if any(each.strategy == EVERY for each in case.expected):
        wanted |= set(FEW)
    of = {name: figures(case, name) for name in sorted(wanted)}
    assert case.expected
    for expected in case.expected:
        assert expected.holds(of), f"{expected}: {of}"


def test_a_scenario_is_drawn_from_its_seed() -> None:
    for case in CASES.values():
        if case.name in ("one-empty-of-hundred", "daily-swing"):
            continue  # as the others, and large
        one, same, other = (case.make(seed).demand.rate_in for seed in (1, 1, 2))
        assert (one == same).all()
        assert (one != other).any()


def test_scenarios_go_to_processes() -> None:
    for case in CASES.values():
        assert pickle.loads(pickle.dumps(case)) == case


def test_expectations_can_fail() -> None:
    of = {NONE: {"unloads": 0.0, "regret": 0.2}, "a": {"unloads": 3.0, "regret": 0.1}}
    assert Expected("a", "unloads", "==", 3, "").holds(of)
    assert not Expected("a", "unloads", "==", 2, "").holds(of)
    assert Expected("a", "regret", "<", 0.6, "", than=NONE).holds(of)
    assert not Expected("a", "regret", "<", 0.4, "", than=NONE).holds(of)
    assert Expected(EVERY, "unloads", ">", 0, "").holds(of)
    assert Expected("who is not run", "unloads", "==", 9, "").holds(of)
    assert Expected("a", "unloads", "<", 1, "", than="who is not run").holds(of)


def test_the_page_is_of_these_scenarios_and_strategies() -> None:
    assert [line[3:] for line in PAGE.splitlines() if line.startswith("## ")][2:] == [*CASES, "real-traces"]
    assert all(f"| {name} |" in PAGE for name in (*BENCHED, *REFERENCES))
    assert "Not as expected" not in PAGE
