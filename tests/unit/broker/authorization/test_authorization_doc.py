"""The page of permissions matches the tables of permissions."""

from pathlib import Path

from support.scripts import load_script

ROOT = Path(__file__).parents[4]


def test_the_page_is_current() -> None:
    """If this fails: .venv/bin/python scripts/generate_authorization_doc.py"""
    module = load_script("generate_authorization_doc")
    assert (ROOT / "docs" / "authorization.md").read_text() == module.document()
