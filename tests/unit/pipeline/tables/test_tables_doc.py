"""docs/tables.md matches the schemas."""

from pathlib import Path

from support.scripts import load_script

ROOT = Path(__file__).parents[4]


def test_the_page_is_as_the_schemas_make_it() -> None:
    """If this fails: .venv/bin/python scripts/generate_tables_doc.py"""
    module = load_script("generate_tables_doc")
    assert (ROOT / "docs" / "tables.md").read_text() == module.document().rstrip() + "\n"
