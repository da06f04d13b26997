"""Every decision record has the same form, and docs/decisions/README.md lists all of them."""

import re
from collections import Counter
from pathlib import Path

import pytest

from support.scripts import load_script

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "decisions"
RECORDS = sorted(FOLDER.glob("[0-9]*.md"))
HEADINGS = ["Context", "Decision", "Consequences"]
MAX_LINES = 60
MAX_COLUMNS = 100


def test_a_record_has_a_title_and_three_parts(subtests: pytest.Subtests) -> None:
    for record in RECORDS:
        with subtests.test(record=record.name):
            check_form(record.read_text())


def check_form(text: str) -> None:
    """A part may have text of its own, lists and tables, but no further headings."""
    title, *parts = re.split(r"^## +", text, flags=re.MULTILINE)
    assert re.fullmatch(r"# (?!\d{4}:)\S.*\n\n", title)
    assert [part.partition("\n")[0] for part in parts] == HEADINGS
    assert all(part.partition("\n")[2].strip() for part in parts)
    assert re.findall(r"^#{3,} .*", text, re.MULTILINE) == []


def test_a_record_fits_on_a_page(subtests: pytest.Subtests) -> None:
    """Rows of tables may be longer than a line, since Markdown cannot wrap them."""
    for record in RECORDS:
        with subtests.test(record=record.name):
            lines = record.read_text().splitlines()
            assert len(lines) <= MAX_LINES
            assert [line for line in lines if len(line) > MAX_COLUMNS and not line.startswith("|")] == []


def test_a_record_has_a_number_of_its_own() -> None:
    assert {file.name for file in FOLDER.iterdir()} == {"README.md", *(record.name for record in RECORDS)}
    assert [record.name for record in RECORDS if not re.fullmatch(r"\d{4}(-[a-z0-9]+)+\.md", record.name)] == []
    numbers = Counter(record.name[:4] for record in RECORDS)
    assert [number for number, times in numbers.items() if times > 1] == []


def test_the_index_lists_every_record() -> None:
    """If this fails: .venv/bin/python scripts/generate_decisions_doc.py"""
    generator = load_script("generate_decisions_doc")
    index = (FOLDER / "README.md").read_text()
    assert re.findall(r"^\| \[\d+\]\((.*?)\)", index, re.MULTILINE) == [record.name for record in RECORDS]
    assert index == generator.document()
