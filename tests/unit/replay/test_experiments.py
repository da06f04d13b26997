"""Published experiments replayed: each has the published outcome, and their values by hand."""

from pathlib import Path
from statistics import median

import numpy as np
import pytest

from pulsar_barycenter.replay.experiments.experiment import (
    AVG,
    FIGURES,
    MIB,
    UNIFORM,
    Experiment,
    carrying,
    experiments,
    figures_of,
    run_experiment,
)
from pulsar_barycenter.replay.outcome import Moved, Outcome
from pulsar_barycenter.replay.scenario import MINUTE_MS
from pulsar_barycenter.replay.synthetic.demand import START_MS

ALL = experiments()
SEEDS = range(1, 10)
PAGE = (Path(__file__).parents[3] / "docs" / "published-experiments.md").read_text()


@pytest.mark.drawn(4)
@pytest.mark.parametrize("experiment", ALL.values(), ids=ALL)
def test_a_replay_comes_out_as_was_published(experiment: Experiment) -> None:
    for strategy in experiment.strategies:
        runs = [run_experiment(experiment, strategy, seed) for seed in SEEDS]
        medians = {strategy: {name: median(run[name] for run in runs) for name in FIGURES}}
        for each in experiment.observed:
            if each.expected.strategy == strategy:
                assert each.expected.holds(medians), f"{each.expected}: {medians}"


def test_pairs_settle_where_rates_never_do() -> None:
    """The order that the authors report: with load that comes and goes AvgShedder is calm, UniformLoadShedder is
    not."""
    wave = ALL["consumers-pause"]
    assert run_experiment(wave, AVG, 1)["unloads"] == 0 < run_experiment(wave, UNIFORM, 1)["unloads"]


@pytest.mark.parametrize("experiment", ALL.values(), ids=ALL)
def test_an_experiment_observes_what_it_runs(experiment: Experiment) -> None:
    assert {each.expected.strategy for each in experiment.observed} <= set(experiment.strategies)
    assert {each.expected.figure for each in experiment.observed} <= set(FIGURES)
    assert f"## {experiment.name}\n" in PAGE
    assert all(each.published in PAGE for each in experiment.observed)


def test_brokers_begin_with_what_was_published() -> None:
    sizes, owners = carrying(("a", "b", "c"), (10.0, 30.0, 60.0), 16, seed=1)
    carried = [sizes[[owner == name for owner in owners]].sum() for name in ("a", "b", "c")]
    assert carried == pytest.approx([10, 30, 60])
    assert sorted(map(owners.count, ("a", "b", "c"))) == [2, 5, 9]


@pytest.mark.parametrize("name", ["unlike-brokers-by-rates", "two-of-five-stop", "broker-joins"])
def test_brokers_are_as_busy_as_was_published(name: str) -> None:
    """The CPU in the experiment's own words, from its traffic, its line and its factors."""
    setup = ALL[name].make(1)
    told = {
        "unlike-brokers-by-rates": [57, 66, 59, 19],
        "two-of-five-stop": [84, 73, 48],
        "broker-joins": [68.6, 65.8, 62.4, 64.8],
    }[name]
    brokers, model = sorted(setup.cluster.brokers), setup.cluster.model
    factors = {event.broker: event.factor for event in setup.events if hasattr(event, "factor")}
    demand = setup.demand
    for broker, percent in zip(brokers, told, strict=True):
        mine = np.array([owner == broker for owner in demand.owners])
        moved = float((demand.throughput_in + demand.throughput_out)[:, mine].sum(axis=1).mean())
        cpu = (model.idle_cpu + model.cpu_per_byte * moved) * factors[broker]
        assert cpu / setup.cluster.brokers[broker].cores == pytest.approx(percent, rel=0.02)


def an_outcome(throughput: list[list[float]], moves: tuple[Moved, ...]) -> Outcome:
    rows = np.array(throughput) * MIB
    return Outcome(
        at_ms=START_MS + np.arange(len(rows)) * MINUTE_MS,
        step_ms=MINUTE_MS,
        brokers=("a", "b"),
        live=np.ones(rows.shape, bool),
        usage=rows / (100 * MIB),
        cpu=rows / (100 * MIB),
        rate=rows / 1024,
        throughput=rows,
        unserved=np.zeros(len(rows)),
        floor=np.zeros(len(rows)),
        moves=moves,
        splits=(),
        unserved_topic_s=0.0,
        event_ms=(),
        bundles=4,
    )


def a_move(minute: int, kind: str = "unload", *, misplaced: bool = False) -> Moved:
    return Moved(
        at_ms=START_MS + minute * MINUTE_MS,
        kind=kind,
        bundle="p/n/0x00000000_0x80000000",
        source="a",
        destination="b",
        misplaced=misplaced,
    )


def test_figures_of_a_run_by_hand() -> None:
    """80 and 20 for five minutes, then 30 and 70 for ten, then 60 and 40: two rounds moved three bundles."""
    loads = [[80, 20]] * 5 + [[30, 70]] * 10 + [[60, 40]] * 10
    moves = (a_move(1, "assign"), a_move(4, misplaced=True), a_move(4), a_move(14))
    found = figures_of(an_outcome([list(map(float, row)) for row in loads], moves), since=2)
    assert found == {
        "unloads": 3.0,
        "operations": 2.0,
        "firstMinute": 2.0,
        "lastMinute": 12.0,
        "wrongPercent": pytest.approx(100 / 3),
        "cpuRange": pytest.approx(20),
        "strongCpuBelowMean": pytest.approx(10),
        "throughputRatio": pytest.approx(1.5),
        "leftPercent": pytest.approx(60),
    }


def test_a_run_without_a_move_has_no_minutes() -> None:
    found = figures_of(an_outcome([[50.0, 50.0]] * 12, ()), since=0)
    assert found["unloads"] == found["wrongPercent"] == found["cpuRange"] == 0
    assert found["firstMinute"] == found["lastMinute"] == found["leftPercent"] == np.inf
