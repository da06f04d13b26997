"""docs/ownership-channel.md matches the tables."""

from pathlib import Path

from support.scripts import load_script

ROOT = Path(__file__).parents[4]


def test_the_page_is_as_the_tables_make_it() -> None:
    """If this fails: .venv/bin/python scripts/generate_ownership_doc.py"""
    module = load_script("generate_ownership_doc")
    assert (ROOT / "docs" / "ownership-channel.md").read_text() == module.document()
