"""Rules and dashboard in `deploy/monitoring`: they parse, and a running broker exports every metric that they name."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import promql_parser
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from pulsar_barycenter.cli.main import main
from pulsar_barycenter.doctor.catalogue import CHECKS
from pulsar_barycenter.load.managers import ManagerKind
from support.leaders_metrics import scrape_of_leader

FOLDER = Path(__file__).parents[4] / "deploy" / "monitoring"
PAGE = Path(__file__).parents[4] / "docs" / "monitoring.md"
RULES: list[dict[str, Any]] = [
    rule
    for group in yaml.safe_load((FOLDER / "barycenter-rules.yaml").read_text())["groups"]
    for rule in group["rules"]
]
BOARD: dict[str, Any] = msgspec.json.decode((FOLDER / "barycenter-board.json").read_bytes())


BALANCING = [kind for kind in ManagerKind if kind is not ManagerKind.NOOP]
"""The load managers that there is something to tell of."""


def expressions() -> list[str]:
    of_board = [target["expr"] for panel in BOARD["panels"] for target in panel["targets"]]
    return [*(rule["expr"] for rule in RULES), *of_board]


def metrics_of(parsed: Any) -> Iterator[str]:
    """Yield the metrics that an expression names."""
    if isinstance(parsed, promql_parser.VectorSelector):
        yield str(parsed.name)
    for part in ("lhs", "rhs", "expr", "args", "vector_selector"):
        found = getattr(parsed, part, None)
        for each in found if isinstance(found, list) else [found]:
            if each is not None:
                yield from metrics_of(each)


@pytest.fixture(params=BALANCING, ids=str)
async def told(request: pytest.FixtureRequest, tmp_path: Path) -> set[str]:
    """The metrics of a broker that leads and serves a topic; those that have nothing to count yet included."""
    families = [*text_string_to_metric_families(await scrape_of_leader(request.param, tmp_path))]
    suffixes = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count"), "summary": ("_sum", "_count")}
    return {f"{family.name}{suffix}" for family in families for suffix in suffixes.get(family.type, ("",))}


async def test_every_metric_that_is_named_is_told(told: set[str]) -> None:
    named = {name for text in expressions() for name in metrics_of(promql_parser.parse(text))}
    assert len(named) > 10
    assert named - told == set()


def test_the_names_in_an_expression_are_found() -> None:
    parsed = promql_parser.parse('max by (a) (rate(one[5m])) > 10 * two and on () sum(avg_over_time(three{x="y"}[1h]))')
    assert set(metrics_of(parsed)) == {"one", "two", "three"}


def test_every_alert_says_what_to_do_and_is_explained() -> None:
    page = PAGE.read_text()
    for rule in RULES:
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert rule["annotations"].keys() == {"summary", "action"}
        assert f"| {rule['alert']} |" in page
        for command in re.findall(r"barycenter ([a-z]+)", rule["annotations"]["action"]):
            assert command in main.list_commands(None)  # type: ignore[arg-type]
        for check in re.findall(r"--check (\S+)", rule["annotations"]["action"]):
            assert check in {each.name for each in CHECKS}


def test_panels_do_not_overlap_and_have_names_of_their_own() -> None:
    taken = [
        (x, y)
        for panel in BOARD["panels"]
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(set(taken)) == len(taken)
    assert max(x for x, _ in taken) < 24
    for key in ("id", "title"):
        assert len({panel[key] for panel in BOARD["panels"]}) == len(BOARD["panels"])
