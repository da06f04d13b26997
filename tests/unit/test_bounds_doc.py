"""docs/bounds.md names an existing test for the bound of each input."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROWS = [
    line
    for line in (ROOT / "docs" / "bounds.md").read_text().splitlines()
    if line.startswith("| ") and not line.startswith("| input ")
]


def test_there_are_rows() -> None:
    assert len(ROWS) > 30


def test_a_bound_has_a_test(subtests: pytest.Subtests) -> None:
    for row in ROWS:
        with subtests.test(row=row):
            _, _, bound, named, _ = (part.strip() for part in row.split("|"))
            assert bound
            found = re.fullmatch(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", named)
            assert found is not None, named
            functions = {
                node.name
                for node in ast.walk(ast.parse((ROOT / found[1]).read_text()))
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            }
            assert found[2] is None or found[2] in functions
