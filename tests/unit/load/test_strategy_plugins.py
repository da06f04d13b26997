"""Strategies of other packages: found, checked, decided by; what is wrong with one is said in a sentence."""

import importlib
import math
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pulsar_barycenter.load.rounds.round import round_of
from pulsar_barycenter.load.strategies import (
    StrategyError,
    _plugin_rows,
    catalogue,
    check_change,
    check_modular,
    shedder_name,
)
from pulsar_barycenter.load.strategy_plugins import PluginError, plugins
from pulsar_barycenter.replay.grid import scenarios
from pulsar_barycenter.snapshots.decided_by import role_of
from pulsar_barycenter.strategies import (
    Code,
    Compared,
    ListedPlan,
    Role,
    Shed,
    config_of,
    read_snapshot,
    render,
    run_round,
)
from support.load_cases import Cluster, equal_bundles
from support.strategy_package import GUIDE, NAME, install

SHEDDING = "loadBalancerLoadSheddingStrategy"
PLACEMENT = "loadBalancerLoadPlacementStrategy"

Installer = Callable[..., None]


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Installer]:
    """Installs the package for one test."""

    def forget() -> None:
        plugins.cache_clear()
        _plugin_rows.cache_clear()
        sys.modules.pop("acme_strategies", None)

    def do(**texts: str) -> None:
        monkeypatch.syspath_prepend(str(install(tmp_path / "packages", **texts)))
        forget()

    yield do
    monkeypatch.undo()
    importlib.invalidate_caches()
    forget()


def uneven() -> Cluster:
    bundles = equal_bundles(4, throughput=40e6, rate=4_000)
    return Cluster().add("full:8080", cpu=90, bundles=bundles).add("idle:8080", cpu=5).add("spare:8080", cpu=6)


def test_a_strategy_of_another_package_decides_by_its_own_settings(installed: Installer) -> None:
    installed()
    snapshot = uneven().snapshot()
    config = config_of(**{SHEDDING: NAME})
    outcome, _ = run_round(snapshot, config)
    (move,) = outcome.moves
    assert move.source == "full:8080"
    assert move.destination in ("idle:8080", "spare:8080")
    assert move.reason.code is Code.MOVES_BY_STRATEGY
    text = render(move.reason)
    assert text.startswith(f"{move.bundle}: the shedding strategy chose it (gap of usage ")
    assert "> gap 10 %): it is the heaviest bundle of the fullest broker [AcmeShedder]" in text
    assert render(outcome.reason).startswith("the shedding strategy lets it shed load")

    wide = config_of(
        **{SHEDDING: "acme_strategies.AcmeShedder", "barycenterStrategySettings": '{"AcmeShedder": {"gap": 0.9}}'}
    )
    kept, _ = run_round(snapshot, wide)
    assert kept.moves == ()
    assert {refusal.reason.code for refusal in kept.refusals()} == {Code.KEPT_BY_STRATEGY}


def test_the_test_of_the_guide_runs(installed: Installer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed()
    shutil.copy(GUIDE.parent / "examples" / "snapshot.json", tmp_path)
    monkeypatch.chdir(tmp_path)
    test: dict[str, Callable[[], None]] = {}
    exec(re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)[1], test)
    test["test_it_takes_a_bundle_of_the_fullest_broker"]()
    (tmp_path / "nothing.json").write_text("{}")
    with pytest.raises(ValueError, match=r"nothing\.json"):
        read_snapshot(tmp_path / "nothing.json")


def test_it_is_in_the_catalogue_and_where_people_name_strategies(installed: Installer) -> None:
    before = {row.name for row in catalogue()}
    installed()
    assert {row.name for row in catalogue()} == before | {NAME}
    assert role_of(NAME) is Role.SHEDDING
    assert [scenario.strategy for scenario in scenarios([NAME], [], [0], [(0, 1)], {})] == [NAME]
    check_change(config_of(), config_of(**{SHEDDING: NAME}))


def test_a_package_that_is_missing_is_named(installed: Installer) -> None:
    with pytest.raises(StrategyError, match=r"is not a strategy known here; .*needs that package on every broker"):
        shedder_name(config_of(**{SHEDDING: "acme_strategies.AcmeShedder"}))
    with pytest.raises(StrategyError, match="needs that package on every broker"):
        shedder_name(config_of(**{SHEDDING: "AcmeShedder"}))
    installed()
    with pytest.raises(StrategyError, match="did you mean AcmeShedder"):
        shedder_name(config_of(**{SHEDDING: "AcmeSheder"}))
    with pytest.raises(StrategyError, match="is a strategy for shedding, not for placement"):
        check_modular(config_of(**{PLACEMENT: NAME}))


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ("{", "is not a JSON object such as"),
        ("[]", "is not a JSON object such as"),
        ('{"AcmeShedder": {"gap": 2}}', "settings of AcmeShedder are not allowed"),
        ('{"AcmeShedder": {"gpa": 0.2}}', "unknown field `gpa`"),
        ('{"AcmeShedder": 7}', "settings of AcmeShedder are not allowed"),
    ],
)
def test_settings_that_are_not_allowed_are_refused(installed: Installer, settings: str, sentence: str) -> None:
    installed()
    config = config_of(**{SHEDDING: NAME, "barycenterStrategySettings": settings})
    with pytest.raises(PluginError, match=sentence):
        check_change(config_of(), config)


@pytest.mark.parametrize(
    ("module", "sentence"),
    [
        ("raise RuntimeError('no licence')", "cannot be imported: RuntimeError: no licence"),
        ("", "cannot be imported: AttributeError"),
        ("raise SystemExit(3)", "cannot be imported: SystemExit: 3"),
        ("AcmeShedder = 3", "is 3, not a subclass of Shedder"),
        ("class AcmeShedder: pass", "not a subclass of Shedder"),
        (
            "from pulsar_barycenter.strategies import Shedder\nclass AcmeShedder(Shedder): name = 'Other'",
            "its class has the name 'Other', not",
        ),
    ],
)
def test_a_class_that_is_none_is_refused(installed: Installer, module: str, sentence: str) -> None:
    installed(module=module or "# nothing")
    with pytest.raises(PluginError, match=sentence):
        check_modular(config_of(**{SHEDDING: NAME}))


def test_a_strategy_that_fails_to_be_made_is_refused(installed: Installer) -> None:
    text = "from pulsar_barycenter.strategies import Shedder\nclass AcmeShedder(Shedder):\n    name = 'AcmeShedder'\n"
    installed(module=text + "    @classmethod\n    def of(cls, config): raise KeyError('band')\n")
    with pytest.raises(StrategyError, match="AcmeShedder cannot be created: KeyError: 'band'"):
        check_change(config_of(), config_of(**{SHEDDING: NAME}))


@pytest.mark.parametrize("rows", [[-1], [4], [0, 0]])
def test_a_plan_of_rows_that_are_none_is_refused(rows: list[int]) -> None:
    with pytest.raises(PluginError, match="each must be the number of a row, from 0 to 3, and occur once"):
        ListedPlan(NAME, uneven().snapshot(), [Shed(row, "so") for row in rows], "")
    with pytest.raises(PluginError, match="not finite"):
        ListedPlan(NAME, uneven().snapshot(), [Shed(0, "so", (Compared("a", math.nan, ">", "b", 1.0),))], "")


def test_a_name_of_ours_stays_ours(installed: Installer) -> None:
    installed(entry_points="[pulsar_barycenter.shedding]\nThresholdShedder = acme_strategies:AcmeShedder\n")
    assert type(round_of(config_of(**{SHEDDING: "ThresholdShedder"})).shedder).__module__.startswith(
        "pulsar_barycenter"
    )


PLACER = """
from dataclasses import dataclass
from pulsar_barycenter.strategies import Code, PlacementChoice, Placer

@dataclass(frozen=True)
class Last(Placer[None]):
    name = "Last"
    @classmethod
    def of(cls, config):
        return cls()
    def start(self):
        return None
    def decide(self, snapshot, candidates, bundle, rng, memory):
        rows = candidates.nonzero()[0]
        return PlacementChoice(int(rows[-1]) if len(rows) else None, self.name, Code.CHOSEN_BY_STRATEGY), None
"""


def test_a_placement_strategy_too(installed: Installer) -> None:
    installed(module=PLACER, entry_points="[pulsar_barycenter.placement]\nLast = acme_strategies:Last\n")
    outcome, _ = run_round(uneven().snapshot(), config_of(**{SHEDDING: "ThresholdShedder", PLACEMENT: "Last"}))
    assert outcome.placements
    for placement in outcome.placements:
        assert placement.reason.code is Code.CHOSEN_BY_STRATEGY
        assert placement.broker == "spare:8080"
