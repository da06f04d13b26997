"""The page of the REST interface says what the routes say."""

import importlib.util
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[4]


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate_rest_doc", ROOT / "scripts" / "generate_rest_doc.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_current() -> None:
    """If this fails: .venv/bin/python scripts/generate_rest_doc.py"""
    assert (ROOT / "docs" / "rest-api.md").read_text() == generator().document()


def test_every_request_has_an_effect() -> None:
    rows = [line for line in generator().document().splitlines() if line.startswith("| `")]
    assert len(rows) > 60
    assert all(row.split("|")[2].strip().endswith(".") for row in rows), rows
