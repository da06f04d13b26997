"""The REST interface told of itself: an OpenAPI document made from the routes as they are.

A handler says with `takes` what it reads of the query and the body; its docstring is its summary. The page
`docs/rest-api.md` is written from the same `operations`.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, TypeVar

import msgspec
from aiohttp import web

from pulsar_barycenter.broker.rest.admission import LONGEST_QUERY, longest_of
from pulsar_barycenter.broker.rest.requests import json_response
from pulsar_barycenter.broker.rest.services import BrokerServices

PATH: Final = "/barycenter/v1/openapi.json"

_TAKES: Final = "rest_takes"

H = TypeVar("H", bound=Callable[..., Any])

FLAG: Final = {"type": "boolean"}
TEXT: Final = {"type": "string", "maxLength": LONGEST_QUERY}


def number(at_most: int) -> dict[str, Any]:
    """Return the schema of a parameter that is a whole number from 0."""
    return {"type": "integer", "minimum": 0, "maximum": at_most}


def one_of(*words: str) -> dict[str, Any]:
    return {"type": "string", "enum": list(words)}


@dataclass(frozen=True, slots=True)
class Taken:
    """What a handler reads: schemas of parameters of the query by name, and the type of the body, None without one."""

    body: Any = None
    query: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def takes(body: Any = None, **query: Mapping[str, Any]) -> Callable[[H], H]:
    """Say what a handler reads of the request besides its path."""

    def mark(handler: H) -> H:
        setattr(handler, _TAKES, Taken(body, query))
        return handler

    return mark


@dataclass(frozen=True, slots=True)
class Operation:
    """A request that a broker answers. `resource` is the class that does, `path` has its parameters in braces."""

    method: str
    path: str
    resource: str
    summary: str
    parts: Mapping[str, str | None]
    takes: Taken


def operations(app: web.Application) -> Iterator[Operation]:
    """Yield what the routes of the application answer, in their order; `parts` maps parts of the path to regexes."""
    for route in app.router.routes():
        info = route.resource.get_info() if route.resource is not None else {}
        path = info.get("path") or info.get("formatter", "")
        if route.method == "HEAD":
            continue
        pattern = info.get("pattern")
        named = re.findall(r"\(\?P<(\w+)>((?:[^()\[\]]|\[[^\]]*\])+)\)", pattern.pattern) if pattern is not None else []
        summary = re.sub(r"\s+", " ", (route.handler.__doc__ or "").strip().split("\n\n")[0])
        yield Operation(
            route.method,
            path,
            route.handler.__qualname__.split(".")[0],
            summary,
            {name: None if regex.startswith("[^{}/]") else regex for name, regex in named},
            getattr(route.handler, _TAKES, Taken()),
        )


def document(app: web.Application) -> dict[str, Any]:
    """Return the OpenAPI document of an application."""
    every = list(operations(app))
    bodies = [each.takes.body for each in every if each.takes.body is not None]
    schemas, components = msgspec.json.schema_components(bodies, ref_template="#/components/schemas/{name}")
    body_schemas = iter(schemas)
    paths: dict[str, dict[str, Any]] = {}
    for each in every:
        body = next(body_schemas) if each.takes.body is not None else None
        paths.setdefault(each.path, {})[each.method.lower()] = _described(each, body)
    return {
        "openapi": "3.1.0",
        "info": {"title": "REST interface of a Barycenter broker", "version": "v2"},
        "paths": paths,
        "components": {"schemas": components},
    }


def _described(operation: Operation, body: Any) -> dict[str, Any]:
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": _schema_of_part(name, regex)}
        for name, regex in operation.parts.items()
    ]
    parameters += [
        {"name": name, "in": "query", "required": False, "schema": schema}
        for name, schema in operation.takes.query.items()
    ]
    described: dict[str, Any] = {
        "operationId": re.sub(r"\W+", "_", f"{operation.method}{operation.path}").strip("_"),
        "tags": [operation.resource],
        "summary": operation.summary,
        "parameters": parameters,
        "responses": {
            "2XX": {"description": "done"},
            "307": {"description": "ask the broker that Location names"},
            "4XX": {"description": "refused, with the reason"},
            "503": {"description": "starting, stopping, or too much to do: try again"},
        },
    }
    if body is not None:
        described["requestBody"] = {"required": False, "content": {"application/json": {"schema": body}}}
    return described


def _schema_of_part(name: str, regex: str | None) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string", "minLength": 1, "maxLength": longest_of(name)}
    if regex is not None and re.fullmatch(r"[\w|-]+", regex):
        return one_of(*regex.split("|"))
    return schema


class OpenApi:
    def __init__(self, services: BrokerServices) -> None:
        self._app: web.Application | None = None

    def routes(self) -> list[web.RouteDef]:
        return [web.get(PATH, self.show)]

    async def show(self, request: web.Request) -> web.Response:
        """Show this interface as an OpenAPI document."""
        self._app = request.app
        return json_response(self._document)

    @cached_property
    def _document(self) -> dict[str, Any]:
        assert self._app is not None
        return document(self._app)
