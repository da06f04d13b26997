"""The docstring of a package names every file and folder in it."""

import ast
import re
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "pulsar_barycenter"

ONE_FILE_A_THING = {"broker/rest", "doctor/checks", "replay/experiments", "replay/scenarios"}
"""Folders of files alike, one a resource, a subject, an experiment, a scenario: the docstring says what each is."""


def packages() -> list[str]:
    return sorted(init.parent.relative_to(SOURCE).as_posix() for init in SOURCE.rglob("__init__.py"))


def children(package: str) -> set[str]:
    """The modules and packages of a package that its docstring has to name."""
    folder = SOURCE / package
    modules = {path.stem for path in folder.glob("*.py") if not path.stem.endswith(("_pb2", "_pb2_grpc"))}
    if package in ONE_FILE_A_THING:
        modules.clear()
    below = {path.parent.name for path in folder.glob("*/__init__.py")}
    return (modules | below) - {"__init__", "errors"}


def test_a_chapter_names_all_that_lives_in_it(subtests: pytest.Subtests) -> None:
    for package in packages():
        with subtests.test(package=package):
            docstring = ast.get_docstring(ast.parse((SOURCE / package / "__init__.py").read_text())) or ""
            named = {word for quoted in re.findall(r"`([^`\n]+)`", docstring) for word in re.findall(r"\w+", quoted)}
            assert sorted(children(package) - named) == []
