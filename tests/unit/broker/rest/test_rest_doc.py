"""The page of the REST interface, and the OpenAPI document of a broker, match the routes."""

import re
from pathlib import Path
from types import ModuleType

from pulsar_barycenter.admin.routes.table import ROUTES
from pulsar_barycenter.broker.rest.openapi import PATH, document
from support.rest_cluster import rest_cluster
from support.scripts import load_script

ROOT = Path(__file__).parents[4]


def generator() -> ModuleType:
    return load_script("generate_rest_doc")


def test_the_page_is_current() -> None:
    """If this fails: .venv/bin/python scripts/generate_rest_doc.py"""
    assert (ROOT / "docs" / "rest-api.md").read_text() == generator().document()


def test_every_request_has_an_effect() -> None:
    rows = [line for line in generator().document().splitlines() if line.startswith("| `")]
    assert len(rows) > 60
    assert all(row.split("|")[2].strip().endswith(".") for row in rows), rows


def test_every_parameter_that_is_read_is_told() -> None:
    """Read from the sources: each parameter of the query that a handler reads is in the route table, and no other."""
    asked = re.compile(r"""(?:flag|whole_number|choice)\(\s*request,\s*"(\w+)"|query(?:\.get|\.getall)?[\[(]"(\w+)\"""")
    told = {name for row in ROUTES for name in row.query}
    sources = [path.read_text() for path in (ROOT / "src" / "pulsar_barycenter" / "broker" / "rest").rglob("*.py")]
    read = {name for source in sources for pair in asked.findall(source) for name in pair if name}
    assert len(read) > 15
    assert read == told


def test_the_document_has_every_route_with_its_parts_and_bodies() -> None:
    told = document()
    for each in ROUTES:
        described = told["paths"][each.path][each.method.lower()]
        parts = [part["name"] for part in described["parameters"] if part["in"] == "path"]
        assert parts == re.findall(r"\{(\w+)\}", each.path)
        assert ("requestBody" in described) == (each.body is not None)
        assert described["summary"] == each.summary
    assert "Policies" in told["components"]["schemas"]


async def test_a_broker_serves_the_document() -> None:
    async with rest_cluster() as cluster:
        shown = (await cluster.expect(200, "GET", PATH)).json
        assert shown["openapi"].startswith("3.")
        assert PATH in shown["paths"]
