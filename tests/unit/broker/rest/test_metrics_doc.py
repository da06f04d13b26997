"""docs/metrics.md is generated from the code, and names every metric of a broker."""

from pathlib import Path
from types import ModuleType

import pytest
from prometheus_client.parser import text_string_to_metric_families

from pulsar_barycenter.load.managers import ManagerKind
from support.leaders_metrics import scrape_of_leader
from support.scripts import load_script

ROOT = Path(__file__).parents[4]


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    return load_script("generate_metrics_doc")


def test_the_page_is_as_the_code_makes_it(generator: ModuleType) -> None:
    """If this fails: .venv/bin/python scripts/generate_metrics_doc.py"""
    assert (ROOT / "docs" / "metrics.md").read_text() == generator.document().rstrip() + "\n"


@pytest.mark.parametrize("kind", ManagerKind, ids=str)
async def test_everything_that_a_broker_tells_is_documented(
    kind: ManagerKind, generator: ModuleType, tmp_path: Path
) -> None:
    families = list(text_string_to_metric_families(await scrape_of_leader(kind, tmp_path)))
    names = {f"{family.name}_total" if family.type == "counter" else family.name for family in families}
    assert len(names) > 100
    assert names - generator.documented() == set()
