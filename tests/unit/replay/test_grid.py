"""The runs of a grid, and what is refused before any of them begins."""

import pytest

from pulsar_barycenter.config.broker_conf import ConfigError
from pulsar_barycenter.load.managers import ManagerKind, StrategyError, manager_in_force
from pulsar_barycenter.load.strategies import PLACEMENT_KEY, SHEDDING_KEY, STRATEGIES, Role, placer_name, shedder_name
from pulsar_barycenter.replay.errors import ReplayInputError
from pulsar_barycenter.replay.grid import CONFIGURED, Scenario, scenarios

LOW = "loadBalancerAvgShedderLowThreshold"
ALL = [(0, 10)]


def test_a_grid_has_every_combination_once() -> None:
    found = scenarios(["AvgShedder", "no-op"], [f"{LOW}=10,15", "minUnloadMessage=0"], [1, 2], [(0, 5), (5, 10)], {})
    assert len(found) == len({each.name for each in found}) == 2 * 2 * 2 * 2
    assert found[0].settings == {LOW: "10", "minUnloadMessage": "0"}
    assert found[0].title == f"AvgShedder {LOW}=10 minUnloadMessage=0"


def test_the_name_of_a_run_is_made_of_what_it_is() -> None:
    one, same = (
        Scenario(strategy="x", settings={"a": "1", "b": "2"}),
        Scenario(strategy="x", settings={"b": "2", "a": "1"}),
    )
    assert one.name == same.name
    assert one.name != Scenario(strategy="x", settings={"a": "1", "b": "2"}, seed=1).name


@pytest.mark.parametrize("name", sorted({row.name for row in STRATEGIES if row.role is Role.SHEDDING}))
def test_every_shedder_can_be_replayed_by_its_name(name: str) -> None:
    config = scenarios([name], [], [0], ALL, {})[0].config({})
    assert shedder_name(config) == name


def test_a_strategy_brings_the_placement_that_goes_with_it() -> None:
    by = {SHEDDING_KEY: "AvgShedder", PLACEMENT_KEY: "AvgShedder"}
    assert placer_name(Scenario(strategy="ThresholdShedder").config(by)) == "LeastLongTermMessageRate"
    assert (
        placer_name(Scenario(strategy="AvgShedder").config({PLACEMENT_KEY: "LeastLongTermMessageRate"})) == "AvgShedder"
    )
    both = Scenario(strategy="ThresholdShedder+LeastResourceUsageWithWeight").config(by)
    assert (shedder_name(both), placer_name(both)) == ("ThresholdShedder", "LeastResourceUsageWithWeight")
    assert shedder_name(Scenario(strategy=CONFIGURED).config(by)) == "AvgShedder"


@pytest.mark.parametrize("kind", ManagerKind)
def test_a_load_manager_can_be_named(kind: ManagerKind) -> None:
    for name in (kind.value, kind.class_name):
        assert manager_in_force(Scenario(strategy=name).config({})) is kind


@pytest.mark.parametrize(
    ("strategy", "text"),
    [
        ("AvgSheder", "did you mean AvgShedder"),
        ("TransferShedder+LeastLongTermMessageRate", "has its own placement"),
        ("ThresholdShedder+Nonsense", "Nonsense"),
        ("LeastLongTermMessageRate", "there is no shedder or load manager"),
    ],
)
def test_unknown_strategies_are_refused(strategy: str, text: str) -> None:
    with pytest.raises(StrategyError, match=text):
        scenarios([strategy], [], [0], ALL, {})


def test_unknown_keys_and_values_are_refused() -> None:
    with pytest.raises(ReplayInputError, match=f"there is no key {LOW}s; did you mean {LOW}"):
        scenarios(["AvgShedder"], [f"{LOW}s=1"], [0], ALL, {})
    with pytest.raises(ReplayInputError, match="give key=value"):
        scenarios(["AvgShedder"], [LOW], [0], ALL, {})
    with pytest.raises(ConfigError, match=LOW):
        scenarios(["AvgShedder"], [f"{LOW}=10,x"], [0], ALL, {})
    with pytest.raises(ReplayInputError, match="the grid has 200,000 runs"):
        scenarios(["AvgShedder"], [], range(200_000), ALL, {})
