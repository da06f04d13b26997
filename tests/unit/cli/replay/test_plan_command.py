"""`barycenter plan` on the command line."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from pulsar_barycenter.cli.main import main
from pulsar_barycenter.operations.plan import read_plan

EXAMPLE = str(Path(__file__).parents[4] / "docs" / "examples" / "snapshot.json")
RECORDED = str(Path(__file__).parents[3] / "data" / "pipeline" / "cluster")
BY_USAGE = ("--strategy", "ThresholdShedder", "--set", "loadBalancerAutoBundleSplitEnabled=false")


def plan(*words: str, code: int = 0) -> Result:
    result = CliRunner().invoke(main, ["plan", *words])
    assert result.exit_code == code, result.output
    return result


def lines(*words: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in plan(*words, "--json").stdout.splitlines()]


def test_what_comes_of_a_cluster_is_told_in_a_sentence() -> None:
    told = plan(EXAMPLE, *BY_USAGE).stdout
    assert "within 30 minutes 2 bundles move; then broker-3:8080 has the highest usage" in told
    assert "it is the heaviest remaining bundle" in told
    assert "settings:" not in told
    assert "settings: loadBalancerBrokerThresholdShedderPercentage" in plan(EXAMPLE, *BY_USAGE, "--explain").stdout


def test_what_is_printed_as_json_can_be_carried_out() -> None:
    """Of a broker that shall leave every bundle goes, each once, to one that stays."""
    words = (EXAMPLE, *BY_USAGE, "--without", "broker-2:8080")
    found = lines(*words)
    assert {line["kind"] for line in found} == {"unload", "broker"}
    moves = read_plan(plan(*words, "--json").stdout.encode()).moves
    leaving = [move for move in moves if move.source == "broker-2:8080"]
    assert leaving
    assert all(move.destination in ("broker-1:8080", "broker-3:8080") for move in moves)
    (gone,) = [line for line in found if line.get("broker") == "broker-2:8080"]
    assert gone["usageAfter"] is None


def test_splits_are_told_and_their_parts_are_no_moves_to_carry_out() -> None:
    found = lines(EXAMPLE, "--scale-load", "3", "--add-brokers", "1")
    assert {"split", "part"} <= {line["kind"] for line in found}
    parts = {part for line in found if line["kind"] == "split" for part in line["parts"]}
    assert {line["bundle"] for line in found if line["kind"] == "part"} <= parts


def test_brokers_that_would_be_overloaded_are_told() -> None:
    assert "3 of 3 brokers would be above 85.0 %" in plan(EXAMPLE, "--scale-load", "3", "--minutes", "5").stdout


def test_which_loads_are_scaled_is_told() -> None:
    told = plan(EXAMPLE, "--scale-load", "1.5", "--minutes", "5").stdout
    note, titles = told.splitlines()[1:3]
    assert note.startswith('from minute 2 on, the load is × 1.5: in the columns "after", and for bundles that move')
    if not titles.startswith("broker"):  # the note has two lines
        titles = told.splitlines()[3]
    assert re.split("  +", titles) == ["broker", "usage now", "usage after", "msg/s now", "msg/s after"]
    assert "the load is ×" not in plan(EXAMPLE, "--minutes", "5").stdout


def test_a_recorded_cluster_goes_on_from_a_time() -> None:
    found = plan("--set", "loadBalancerSheddingEnabled=false", RECORDED, "--minutes", "3").stdout
    assert "within 3 minutes 0 bundles move" in found


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        ((EXAMPLE, "--without", "nobody"), 1, "nobody is not a registered broker"),
        ((EXAMPLE, "--strategy", "ThresholdSheder"), 2, "did you mean ThresholdShedder"),
        ((EXAMPLE, "--scale-load", "0"), 2, "0.001<=x<=1000"),
        (("nowhere.json",), 1, "nowhere.json"),
        ((), 2, "give SNAPSHOT, or --url"),
    ],
)
def test_words_that_are_wrong_are_answered(words: tuple[str, ...], code: int, text: str) -> None:
    assert text in plan(*words, code=code).stderr.replace("\n", " ")
