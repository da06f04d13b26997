"""docs/tables.md matches the schemas."""

import importlib.util
from pathlib import Path

ROOT = Path(__file__).parents[4]


def test_the_page_is_as_the_schemas_make_it() -> None:
    """If this fails: .venv/bin/python scripts/generate_tables_doc.py"""
    spec = importlib.util.spec_from_file_location("generate_tables_doc", ROOT / "scripts" / "generate_tables_doc.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert (ROOT / "docs" / "tables.md").read_text() == module.document().rstrip() + "\n"
