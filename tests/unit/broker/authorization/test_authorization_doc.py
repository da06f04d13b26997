"""The page of permissions matches the tables of permissions."""

import importlib.util
from pathlib import Path

ROOT = Path(__file__).parents[4]


def test_the_page_is_current() -> None:
    """If this fails: .venv/bin/python scripts/generate_authorization_doc.py"""
    path = ROOT / "scripts" / "generate_authorization_doc.py"
    spec = importlib.util.spec_from_file_location("generate_authorization_doc", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert (ROOT / "docs" / "authorization.md").read_text() == module.document()
