"""The pages about the code name files that exist, and the journeys pass packages that the page of packages lists."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "pulsar_barycenter"
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text()

JOURNEYS = ARCHITECTURE.split("\n### ")[1:]


def files_of(text: str) -> list[str]:
    return re.findall(r"`([\w/]+\.py)`", text)


@pytest.mark.parametrize("page", ["architecture.md", "adding-a-strategy.md"])
def test_every_file_named_exists(page: str) -> None:
    named = files_of((ROOT / "docs" / page).read_text())
    assert named
    missing = [name for name in named if not ((SOURCE / name).exists() or (ROOT / name).exists())]
    assert [name for name in missing if "my_shedder" not in name] == []


@pytest.mark.parametrize("journey", JOURNEYS, ids=lambda journey: journey.partition("\n")[0])
def test_a_journey_is_a_list_of_files_in_order(journey: str) -> None:
    numbers = [int(number) for number in re.findall(r"^(\d+)\. ", journey, re.MULTILINE)]
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(files_of(journey)) >= len(numbers) - 1


def test_every_room_is_on_the_page() -> None:
    table = ARCHITECTURE.partition("## The packages")[2].partition("## ")[0]
    listed = {name for row in re.findall(r"^\| (`.*?) \|", table, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)}
    assert listed == {path.parent.name for path in SOURCE.glob("*/__init__.py")}
