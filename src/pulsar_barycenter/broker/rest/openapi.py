"""Describes the REST interface as an OpenAPI document, from the route table."""

import re
from collections.abc import Sequence
from functools import cache
from typing import Any, Final

import msgspec
from aiohttp import web

from pulsar_barycenter.admin.routes.barycenter import SHOW_OPENAPI
from pulsar_barycenter.admin.routes.route import Route, one_of
from pulsar_barycenter.admin.routes.table import ROUTES
from pulsar_barycenter.broker.rest.admission import longest_of
from pulsar_barycenter.broker.rest.bodies import body_type
from pulsar_barycenter.broker.rest.requests import json_response
from pulsar_barycenter.broker.rest.services import BrokerServices

PATH: Final = SHOW_OPENAPI.path


def document(rows: Sequence[Route] = ROUTES) -> dict[str, Any]:
    """Return the OpenAPI document that describes the routes in `rows`."""
    bodies = [body_type(row) for row in rows if row.body is not None]
    schemas, components = msgspec.json.schema_components(bodies, ref_template="#/components/schemas/{name}")
    body_schemas = iter(schemas)
    paths: dict[str, dict[str, Any]] = {}
    for row in rows:
        body = next(body_schemas) if row.body is not None else None
        paths.setdefault(row.path, {})[row.method.lower()] = _described(row, body)
    return {
        "openapi": "3.1.0",
        "info": {"title": "REST interface of a Barycenter broker", "version": "v2"},
        "paths": paths,
        "components": {"schemas": components},
    }


def _described(row: Route, body: Any) -> dict[str, Any]:
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": _schema_of_part(name, regex)}
        for name, regex in row.parts.items()
    ]
    parameters += [
        {"name": name, "in": "query", "required": False, "schema": schema} for name, schema in row.query.items()
    ]
    described: dict[str, Any] = {
        "operationId": re.sub(r"\W+", "_", f"{row.method}{row.path}").strip("_"),
        "tags": [row.group],
        "summary": row.summary,
        "parameters": parameters,
        "responses": {
            "2XX": {"description": "done"},
            "307": {"description": "send the request to the broker that Location names"},
            "4XX": {"description": "refused, with the reason"},
            "503": {"description": "starting, stopping, or overloaded: try again"},
        },
    }
    if body is not None:
        described["requestBody"] = {"required": False, "content": {"application/json": {"schema": body}}}
    return described


def _schema_of_part(name: str, regex: str | None) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string", "minLength": 1, "maxLength": longest_of(name)}
    if regex is not None and re.fullmatch(r"[\w|-]+", regex):
        return dict(one_of(*regex.split("|")))
    return schema


@cache
def _document() -> dict[str, Any]:
    return document()


class OpenApi:
    def __init__(self, services: BrokerServices) -> None:
        """Ignore `services`: all brokers of a version have the same interface."""

    async def show(self, request: web.Request) -> web.Response:
        return json_response(_document())
