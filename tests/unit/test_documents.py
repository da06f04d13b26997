"""Documents can be found, their links lead somewhere, and the commands that they show exist."""

import re
from functools import cache
from pathlib import Path

import click
import pytest

from pulsar_barycenter.cli.main import main

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
BENCHMARKS = ROOT / "benchmarks"
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    BENCHMARKS / "RESULTS.md",
    *sorted((BENCHMARKS / "results").glob("*.md")),
    *sorted(DOCS.rglob("*.md")),
]


@cache
def text_of(page: Path) -> str:
    """A page without its blocks of code."""
    return re.sub(r"^ *```.*?^ *```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)


@cache
def links(page: Path) -> tuple[str, ...]:
    """Where the links of a page go, those of the net left out."""
    prose = re.sub(r"`[^`\n]*`", "code", text_of(page))
    found = re.findall(r"\[[^\]]*\]\(([^()\s]+)\)", prose)
    return tuple(link for link in found if not re.match(r"\w+:", link))


@cache
def anchors(page: Path) -> frozenset[str]:
    """The names that GitHub gives to the headings of a page."""
    headings = re.findall(r"^#+ +(.*)$", text_of(page), re.MULTILINE)
    plain = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading) for heading in headings)
    return frozenset(re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in plain)


def test_links_lead_somewhere(subtests: pytest.Subtests) -> None:
    for page in PAGES:
        with subtests.test(page=page.relative_to(ROOT).as_posix()):
            check_links(page)


def check_links(page: Path) -> None:
    for link in links(page):
        file, _, anchor = link.partition("#")
        target = (page.parent / file).resolve() if file else page
        assert target.exists(), link
        if anchor:
            assert anchor in anchors(target), link


def test_every_document_is_linked_from_another_one() -> None:
    linked = {
        (page.parent / link.partition("#")[0]).resolve() for page in PAGES for link in links(page) if link[0] != "#"
    }
    assert DOCS / "decisions" in linked
    pages = {page for page in DOCS.rglob("*.md") if page.parent.name != "decisions"}
    assert sorted(page.relative_to(DOCS).as_posix() for page in pages - linked) == []


def test_the_index_has_every_document() -> None:
    linked = {(DOCS / link.partition("#")[0]).resolve() for link in links(DOCS / "README.md")}
    assert sorted(page.name for page in DOCS.glob("*.md") if page not in linked and page.name != "README.md") == []
    assert DOCS / "README.md" in {(ROOT / link.partition("#")[0]).resolve() for link in links(ROOT / "README.md")}


def commands(page: Path) -> list[str]:
    """Return the lines of a page that run the `barycenter` program, in blocks and within sentences.

    Those of `barycenter admin` are left out, whose flags are those of pulsar-admin.
    """
    text = page.read_text().replace("\\\n", " ")
    lines = re.findall(r"^ *(?:[A-Z_]+=\S+ )?(?:\.venv/bin/)?barycenter +([^\n#|>]*)", text, re.MULTILINE)
    lines += re.findall(r"`(?:\.venv/bin/)?barycenter +([^`\n]*)`", text)
    return [line for line in lines if not line.startswith("admin ")]


def test_commands_that_pages_show_exist_with_their_options(subtests: pytest.Subtests) -> None:
    for page in PAGES:
        if page.parent.name != "decisions":
            with subtests.test(page=page.relative_to(ROOT).as_posix()):
                check_commands(page)


def check_commands(page: Path) -> None:
    for line in commands(page):
        words = re.sub(r'"[^"]*"|\'[^\']*\'', "text", line).split()
        command: click.Command = main
        known: set[str] = set()
        while words:
            known |= {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
            known |= {"-h", "--help", "--version"}
            below = command.get_command(click.Context(command), words[0]) if isinstance(command, click.Group) else None
            if below is None:
                break
            command = below
            words.pop(0)
        options = {word.partition("=")[0].rstrip(",.)") for word in words if re.match(r"--?[a-z]", word)}
        assert options <= known, line
        assert not isinstance(command, click.Group) or not words or words[0].isupper() or words[0].startswith("-"), line
