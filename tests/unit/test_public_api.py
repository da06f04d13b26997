"""The public modules are as the page says, and their examples run."""

import importlib
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from support.scripts import load_script

ROOT = Path(__file__).parents[2]


def generator() -> ModuleType:
    return load_script("generate_api_doc")


def test_the_page_is_as_the_code_makes_it() -> None:
    """If this fails: .venv/bin/python scripts/generate_api_doc.py; and a change that breaks callers needs a new major
    version and a line in CHANGELOG.md."""
    assert (ROOT / "docs" / "api.md").read_text() == generator().document()


def test_every_export_is_sorted_documented_and_there(subtests: pytest.Subtests) -> None:
    for name in generator().MODULES:
        module = importlib.import_module(name)
        assert list(module.__all__) == sorted(module.__all__)
        for export in module.__all__:
            with subtests.test(export=f"{name}.{export}"):
                value = getattr(module, export)
                assert value.__doc__
                assert not export.startswith("_")


EXAMPLES = """
import doctest, importlib, sys
tried = 0
for name in sys.argv[1:]:
    module = importlib.import_module(name)
    for export in module.__all__:
        value = getattr(module, export)
        for test in doctest.DocTestFinder(exclude_empty=True).find(value, export, globs={export: value}):
            found = doctest.DocTestRunner().run(test)
            tried += found.attempted
            assert not found.failed
assert tried
"""


def test_every_name_of_the_module_for_tests_has_an_example(subtests: pytest.Subtests) -> None:
    """A user copies from these; that they run is the next test's subject."""
    module = importlib.import_module("pulsar_barycenter.testing")
    for export in module.__all__:
        with subtests.test(export=export):
            assert ">>> " in getattr(module, export).__doc__


def test_the_examples_in_docstrings_run() -> None:
    """In a process of their own: other tests configure logging, and a broker would log to their output."""
    command = [sys.executable, "-c", EXAMPLES, *generator().MODULES]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr
