"""What is timed is what runs: benchmarks import only code that a broker, or the pipeline's job, reaches by itself."""

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from pulsar_barycenter.load.strategies import STRATEGIES

pytestmark = pytest.mark.xdist_group("benchmarks")  # all ask for what one reading of the sources finds

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"

ROOTS = (
    "pulsar_barycenter.cli.run.broker",
    "pulsar_barycenter.cli.run.standalone",
    "pulsar_barycenter.pipeline.job",
    "pulsar_barycenter.cli.main",
    "pulsar_barycenter.cli.replay.command",
)
"""What a person starts."""

BENCHMARKS = sorted(
    path.relative_to(ROOT).as_posix()
    for path in (ROOT / "benchmarks").rglob("*.py")
    if "pulsar_barycenter" in path.read_text()
)


SET_UP = {"free_ports"}
"""What benchmarks set up with; nobody times it."""
LOADS = {"pulsar_barycenter.replay.experiments.chaos", "pulsar_barycenter.replay.scenario"}
"""What benchmarks have replayed."""


def path_of(module: str) -> Path | None:
    path = SOURCE / Path(*module.split("."))
    return next((each for each in (path.with_suffix(".py"), path / "__init__.py") if each.exists()), None)


def imported(path: Path) -> dict[str, set[str]]:
    """The modules of ours that a file imports, anywhere in it, each with the names taken from it."""
    found: dict[str, set[str]] = {}
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("pulsar_barycenter"):
            for alias in node.names:
                if path_of(f"{node.module}.{alias.name}"):
                    found.setdefault(f"{node.module}.{alias.name}", set())
                else:
                    found.setdefault(node.module, set()).add(alias.name)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.startswith("pulsar_barycenter"):
                    found.setdefault(alias.name, set())
    return found


@cache
def reached() -> frozenset[str]:
    """Every module that runs: what the roots import, and the strategies that the catalogue names."""
    ahead = [*ROOTS, *(f"pulsar_barycenter.load.{row.module}" for row in STRATEGIES)]
    ahead += [
        f"pulsar_barycenter.cli.{path.parent.name}.{path.stem}"
        for path in (SOURCE / "pulsar_barycenter/cli").glob("*/*.py")
    ]
    seen: set[str] = set()
    while ahead:
        module = ahead.pop()
        path = path_of(module)
        if module not in seen and path is not None:
            seen.add(module)
            ahead += imported(path)
    return frozenset(seen)


@cache
def words() -> dict[str, set[str]]:
    """The names that each module that runs speaks of, those of its own definitions left out."""
    found = {}
    for module in reached():
        path = path_of(module)
        assert path is not None
        tree = ast.parse(path.read_text())
        names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        names |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        found[module] = names
    return found


def test_the_leaders_round_is_reached() -> None:
    assert {"pulsar_barycenter.load.rounds.round", "pulsar_barycenter.load.shedding.threshold_shedder"} <= reached()
    assert path_of("pulsar_barycenter.load.placement.bulk") is None


@pytest.mark.parametrize("benchmark", BENCHMARKS)
def test_a_benchmark_times_what_runs(benchmark: str) -> None:
    for module, names in imported(ROOT / benchmark).items():
        if module in LOADS:
            continue
        assert module in reached(), f"nothing that runs imports {module}"
        unused = {name for name in names - SET_UP if not any(name in spoken for spoken in words().values())}
        assert not unused, f"nothing that runs uses {sorted(unused)} of {module}"


def test_without_a_name_the_benchmarks_are_listed_with_what_each_measures() -> None:
    told = subprocess.run([sys.executable, "-m", "benchmarks"], cwd=ROOT, capture_output=True, text=True, check=True)
    rows = dict(re.findall(r"^(\w+)  +(\S.*)$", told.stdout, re.MULTILINE))
    timed = {path.stem for path in (ROOT / "benchmarks").glob("*.py") if "\nif __name__ ==" in path.read_text()}
    packages = {path.parent.name for path in (ROOT / "benchmarks").glob("*/__main__.py")}
    assert set(rows) == (timed | packages) - {"__main__"}
    assert not [text for text in rows.values() if "python" in text or not text.endswith(".")]
