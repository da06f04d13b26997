"""The pages of the strategies match the code, and their examples have the shown results."""

import importlib
import importlib.util
import json
import re
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest
from click.testing import CliRunner

from pulsar_barycenter.cli.main import main
from pulsar_barycenter.config.broker_conf import keys
from pulsar_barycenter.load.managers import ManagerKind
from pulsar_barycenter.load.splitting.algorithms import ALGORITHMS
from pulsar_barycenter.load.strategies import STRATEGIES

ROOT = Path(__file__).parents[4]
FOLDER = ROOT / "docs" / "strategies"


def _script(name: str) -> ModuleType:
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(ROOT / "scripts"))


generator = _script("generate_strategy_docs")
PAGES = {page.name: page for _, members in generator.GROUPS for page in members}


@pytest.fixture(scope="module")
def documents() -> dict[str, str]:
    made: dict[str, str] = generator.documents()
    return made


def test_the_pages_are_current(documents: dict[str, str]) -> None:
    """If this fails: .venv/bin/python scripts/generate_strategy_docs.py"""
    assert {file.name for file in FOLDER.glob("*.md")} == set(documents)
    for name, text in documents.items():
        assert (FOLDER / name).read_text() == text, name


def test_every_strategy_split_algorithm_and_load_manager_has_a_page(documents: dict[str, str]) -> None:
    everything = "\n".join(documents.values())
    for each in STRATEGIES:
        if each.manager is ManagerKind.MODULAR and each.is_named:
            assert f"={each.class_name}`" in everything or "has to name it, too" in everything
        titled = "The simple load manager" if each.manager is ManagerKind.SIMPLE else each.name
        assert any(page.title.startswith(titled) for page in PAGES.values()), each
    for algorithm in ALGORITHMS:
        assert f"## {algorithm.removesuffix('_force')}\n" in everything
    named = {name for page in PAGES.values() for source in page.sources for name in [source.partition(":")[0]]}
    named |= {source for page in PAGES.values() for _, source in page.also}
    for folder in ("load/shedding", "load/placement", "load/splitting", "load/filters"):
        for file in (ROOT / "src" / "pulsar_barycenter" / folder).glob("*.py"):
            is_strategy = re.search(r"^NAME\b", file.read_text(), re.MULTILINE)
            assert not is_strategy or f"{folder}/{file.name}" in named, file


@pytest.mark.parametrize("name", sorted(PAGES))
def test_a_page_has_an_example_and_says_when_to_use_it_and_when_not(name: str, documents: dict[str, str]) -> None:
    text = documents[f"{name}.md"]
    assert "## Example" in text
    assert "```console\n$ barycenter decide" in text or "```python" in text
    if len(PAGES[name].sources) == 1:
        assert "When to use it: " in text
        assert "When not: " in text
        assert "Worked example" in text
        assert "Source: " in text
    assert "##  " not in text
    assert "## \n" not in text


def test_links_lead_somewhere(documents: dict[str, str]) -> None:
    for name, text in documents.items():
        for target in re.findall(r"\]\(([^)#:]+)\)", text):
            assert (FOLDER / target).exists(), f"{name}: {target}"


def test_the_settings_of_a_page_are_those_that_the_strategy_reads() -> None:
    assert "loadBalancerBrokerThresholdShedderPercentage" in generator.keys_of(PAGES["threshold_shedder"])
    assert "loadBalancerAvgShedderLowThreshold" not in generator.keys_of(PAGES["threshold_shedder"])
    assert "loadBalancerBandwithInResourceWeight" in generator.keys_of(PAGES["threshold_shedder"])
    for page in PAGES.values():
        assert set(page.more_keys) <= set(keys())


# ---- the examples, reckoned by hand from what the docstrings say ----

MOVES: dict[str, dict[tuple[str, str], int]] = {
    # 15 % of 400 MiB/s are 60, and a bundle carries 100
    "threshold_shedder": {("b1:8080", "b3:8080"): 1},
    # 10 % of 1000 MiB/s are 100, and a bundle carries 125
    "overload_shedder": {("b1:8080", "b2:8080"): 1},
    # a fifth of 50,000 - 30,000 are 4000: 3000 and 500 fit, 30,000, 15,000 and then 1500 do not
    "uniform_load_shedder": {("b1:8080", "b2:8080"): 2},
    # half of 40,000 - 10,000 are three bundles of 5000; 80 % and 20 % become 50 % and 50 %
    "avg_shedder": {("b2:8080", "b3:8080"): 3},
    # 80 of 400 percent of a core are 20 % of each: six of eight bundles, b3 gets twice as many as b2
    "least_disturbance": {("b1:8080", "b2:8080"): 2, ("b1:8080", "b3:8080"): 4},
    # a tenth of 100 MiB/s, and the heavier of two bundles goes first
    "range_threshold_shedder": {("b01:8080", "b11:8080"): 1},
    # 90, 30, 30 become 70, 50, 30 and then 50, 50, 50
    "deviation_shedder": {("b1:8080", "b2:8080"): 1, ("b1:8080", "b3:8080"): 1},
    # the first to the broker of 100 msg/s, the second to that of 110
    "least_long_term_message_rate": {("", "b1:8080"): 1, ("", "b2:8080"): 1},
    # both to brokers at 30 % or below
    "least_resource_usage_with_weight": {("", "b1:8080"): 1, ("", "b2:8080"): 1},
    # the first of three, then the second of the two that have none
    "round_robin_broker_selector": {("", "b1:8080"): 1, ("", "b3:8080"): 1},
    # 20,000 in and 20,000 out; one of 50,000 has a single topic
    "bundle_splitter": {("b1:8080", ""): 1},
    # b1 has the other bundle, b3 the topics, b4 the other load manager; isolated brokers, then the others
    "filters": {("", "b2:8080"): 1, ("", "b-2:8080"): 1, ("", "b-4:8080"): 1},
}


@pytest.mark.parametrize("name", sorted(MOVES))
def test_the_example_moves_what_its_text_says(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    moved: Counter[tuple[str, str]] = Counter()
    for example in PAGES[name].examples:
        result = CliRunner().invoke(main, [*example.arguments, "--json"])
        assert result.exit_code == 0, result.output
        for line in map(json.loads, result.stdout.splitlines()):
            if line["kind"] in ("unload", "assign", "split"):
                moved[line.get("source", ""), line.get("destination", "")] += 1
    assert moved == MOVES[name]


def test_every_example_by_the_program_is_reckoned_and_every_snapshot_is_used() -> None:
    commands = {name: page.examples for name, page in PAGES.items() if hasattr(page.examples[0], "command")}
    assert set(commands) == set(MOVES)
    said = " ".join(example.command for examples in commands.values() for example in examples)
    said += " ".join(example.file for page in PAGES.values() for example in page.examples if hasattr(example, "file"))
    for file in (FOLDER / "examples").iterdir():
        if file.suffix in (".json", ".py"):
            assert f"examples/{file.name}" in said, file


@pytest.mark.parametrize(
    ("name", "figures"),
    [
        ("threshold_shedder", ["60 MiB/s", "mean + threshold = 30 %"]),
        ("overload_shedder", ["throughput to shed 100 MiB/s"]),
        ("uniform_load_shedder", ["66.67 %", "4000 msg/s"]),
        ("avg_shedder", ["usage gap 60 %", "remaining load to shed 15000 msg/s"]),
        ("range_threshold_shedder", ["83.18 %", "63.18 %", "10 MiB/s"]),
        ("deviation_shedder", ["78.28 MiB/s"]),  # 50 + 28.28
        ("split_algorithms", ["0x4000", "0x12", "0x2000, 0x6000", "0x13"]),
        ("simple_load_manager", ["message rate, 300 msg/s"]),
        # 350 of 800 MB/s; three of 90 fit, the fourth for one of 20 in return
        (
            "transfer_shedder",
            ["28.67 %", "333.8 MiB/s", "b1-3/0x00000000_0xffffffff goes from b1", "goes from b3 to b1"],
        ),
        ("default_split_strategy", ["minute 3, 20000 msg/s: counted 0", "split at 0x20000000", "runs in a row 4"]),
    ],
)
def test_the_output_shows_the_figures_of_the_text(name: str, figures: list[str], documents: dict[str, str]) -> None:
    printed = " ".join(documents[f"{name}.md"].split("## Example")[1].split())  # tables wrap sentences
    assert all(figure in printed for figure in figures)


def test_decide_warns_of_what_a_configuration_cannot_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    [example] = PAGES["uniform_load_shedder"].examples
    result = CliRunner().invoke(main, [*example.arguments, "--set", "maxUnloadPercentage=0"])
    assert result.exit_code == 0
    assert "barycenter: warning: maxUnloadPercentage=0: UniformLoadShedder may move no part" in result.stderr
    assert "maxUnloadPercentage=0" not in result.stdout
