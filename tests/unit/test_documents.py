"""Documents can be found, and their links lead somewhere."""

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "benchmarks" / "RESULTS.md", *sorted(DOCS.rglob("*.md"))]


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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
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
