"""The pictures in README and pages exist, are small, and have a text alternative."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
SHOWN = [(page, *found) for page in PAGES for found in re.findall(r"!\[(.*?)\]\(([^)]+)\)", page.read_text())]
MOST_BYTES = 200_000


@pytest.mark.parametrize(("page", "words", "file"), SHOWN, ids=lambda value: getattr(value, "name", str(value)[-30:]))
def test_a_picture_is_there_and_told_in_words(page: Path, words: str, file: str) -> None:
    picture = page.parent / file
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert picture.stat().st_size <= MOST_BYTES
    assert len(words.split()) >= 5


def test_every_picture_is_shown_somewhere() -> None:
    shown = {(page.parent / file).resolve() for page, _, file in SHOWN}
    assert shown == {file.resolve() for file in (ROOT / "docs" / "pictures").iterdir()}
