"""The public modules are as the pages say, all their names are documented, and their examples run."""

import doctest
import enum
import importlib
import inspect
import subprocess
import sys
from collections.abc import Iterator
from difflib import unified_diff
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import pytest

from support.scripts import load_script

ROOT = Path(__file__).parents[2]

WITHOUT_EXAMPLE: Final = {
    "history.tables": "needs Java; tests/pipeline/test_public_tables.py runs it",
    "history.HistoryTables": "likewise",
    "replay.Recommendation": "what `Load.advise` returns",
    "replay.trace_load": "needs files; tests/unit/lab/test_programs.py has some",
    "replay.workload_load": "likewise",
    "strategies.Placer": "docs/strategy-plugins.md and its notebook have whole strategies",
    "strategies.Shedder": "likewise",
    "strategies.ListedPlan": "likewise",
    "strategies.settings_of": "likewise",
    "strategies.LoadSnapshot": "what `read_snapshot` returns",
    "strategies.BrokerTable": "likewise",
    "strategies.BundleTable": "likewise",
    "strategies.MessageColumns": "likewise",
    "strategies.RoundOutcome": "what `run_round` returns",
    "strategies.Placement": "what `RoundOutcome.placements` has",
    "strategies.catalogue": "what is installed differs",
    "strategies.render": "the sentences are not public",
}
"""Functions, and classes with methods, without an example in their docstrings or those of their methods; and why."""

REMEDY: Final = """
The public interface is no longer that of docs/api-signatures.txt. If that is what you want:
1. .venv/bin/python scripts/generate_api_doc.py
2. add a line to CHANGELOG.md: under Added, or under Changed or Removed if a caller may have to change its code, which
   needs a new major version from 1.0.0 on (docs/api.md has the rules)
"""


def generator() -> ModuleType:
    return load_script("generate_api_doc")


def exports() -> Iterator[tuple[str, Any]]:
    """All public names, each with its module's short name, and their values."""
    for name in generator().MODULES:
        module = importlib.import_module(name)
        for export in module.__all__:
            yield f"{name.rpartition('.')[2]}.{export}", getattr(module, export)


def test_the_page_is_as_the_code_makes_it() -> None:
    """If this fails: .venv/bin/python scripts/generate_api_doc.py"""
    assert (ROOT / "docs" / "api.md").read_text() == generator().document()


def test_the_signatures_are_those_that_were_accepted() -> None:
    accepted = (ROOT / "docs" / "api-signatures.txt").read_text().splitlines()
    changes = "\n".join(unified_diff(accepted, generator().signatures().splitlines(), "accepted", "present", n=0))
    assert not changes, f"{changes}\n{REMEDY}"


def test_every_export_is_sorted_documented_and_there(subtests: pytest.Subtests) -> None:
    for name in generator().MODULES:
        module = importlib.import_module(name)
        assert list(module.__all__) == sorted(module.__all__)
    for export, value in exports():
        with subtests.test(export=export):
            assert inspect.getdoc(value)
            assert not export.rpartition(".")[2].startswith("_")


def methods(value: type) -> list[str]:
    return [name for name in vars(value) if not name.startswith("_") and inspect.isroutine(getattr(value, name))]


def test_every_public_method_and_property_is_documented(subtests: pytest.Subtests) -> None:
    for export, value in exports():
        if isinstance(value, type):
            for name, member in vars(value).items():
                of_member = member.func if isinstance(member, cached_property) else member
                is_property = isinstance(member, property | cached_property)
                if not name.startswith("_") and (is_property or inspect.isroutine(getattr(value, name))):
                    with subtests.test(member=f"{export}.{name}"):
                        assert inspect.getdoc(of_member)


def test_what_does_something_has_an_example_or_a_reason() -> None:
    lacking = {
        export
        for export, value in exports()
        if not (isinstance(value, type) and (issubclass(value, BaseException | enum.Enum) or not methods(value)))
        and not getattr(value, "_is_protocol", False)
        and not any(found.examples for found in doctest.DocTestFinder(exclude_empty=True).find(value, export, globs={}))
    }
    assert lacking == set(WITHOUT_EXAMPLE)


EXAMPLES = """
import doctest, importlib, sys
tried = failed = 0
for name in sys.argv[1:]:
    module = importlib.import_module(name)
    public = {export: getattr(module, export) for export in module.__all__}
    for export, value in public.items():
        for test in doctest.DocTestFinder(exclude_empty=True).find(value, export, globs=dict(public)):
            found = doctest.DocTestRunner().run(test)
            tried, failed = tried + found.attempted, failed + found.failed
assert tried and not failed
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
    found = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert found.returncode == 0, found.stdout + found.stderr
