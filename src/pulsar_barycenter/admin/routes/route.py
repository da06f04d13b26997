"""A row of the route table, and the group of rows that one class of handlers serves."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import GenericAlias
from typing import Any, Final, TypeAlias

from pulsar_barycenter.admin.routes.rights import Right

Schema: TypeAlias = Mapping[str, Any]
"""A JSON schema."""

LONGEST_QUERY: Final = 4_000
"""The maximum length of a parameter's value in the query, in characters."""
LARGEST_EXACT: Final = 2**53
"""The largest whole number up to which every JSON library represents all numbers exactly."""
FLAG: Final[Schema] = {"type": "boolean"}
TEXT: Final[Schema] = {"type": "string", "maxLength": LONGEST_QUERY}

_PART: Final = re.compile(r"\{(\w+)(?::([^}]*))?\}")


def number(at_most: int) -> Schema:
    """Return the schema of a whole number from 0 to `at_most`."""
    return {"type": "integer", "minimum": 0, "maximum": at_most}


def one_of(*words: str) -> Schema:
    return {"type": "string", "enum": list(words)}


@dataclass(frozen=True, slots=True)
class Route:
    """A row of the route table: a request that brokers answer.

    Args:
        group: The class in `broker.rest` whose method `handler` answers the request.
        template: The path with its parts in braces: `{part:regex}` matches the regex, `{part}` any segment.
        right: The right that the caller must have.
        summary: What the request does, in one sentence, for the page of the REST API.
        body: The type of the JSON body, or the name of a type in `broker.rest.bodies`; None for a request without a
            body.
        query: The parameters of the query: a mapping from name to schema.
        by_leader: Only the leader carries out the request, because only it may write what the request changes. Other
            brokers redirect to the leader; `leaderOnlyMetadataWrites=false` switches this off.
        is_audited: The request is recorded in the audit log if it changes something. False for requests that brokers
            send to each other.
        without_command: Why no command of `barycenter admin` sends the request; empty if a command does.
    """

    group: str
    method: str
    template: str
    handler: str
    right: Right
    summary: str
    body: type | GenericAlias | str | None = None
    query: Mapping[str, Schema] = field(default_factory=dict)
    by_leader: bool = False
    is_audited: bool = True
    without_command: str = ""

    @property
    def path(self) -> str:
        """The path of the route, with the names of its parts in braces and without regexes."""
        return _PART.sub(r"{\1}", self.template)

    @property
    def parts(self) -> dict[str, str | None]:
        """The names of the parts of the path with the regex that each must match; None: any segment matches."""
        return {part[1]: part[2] for part in _PART.finditer(self.template)}


@dataclass(frozen=True, slots=True)
class RouteGroup:
    """The routes of the handler class `name`, in the order in which paths are matched; all paths begin with `root`."""

    name: str
    root: str = ""
    routes: list[Route] = field(default_factory=list)

    def route(
        self,
        method: str,
        path: str,
        handler: str,
        right: Right,
        summary: str,
        *,
        body: type | GenericAlias | str | None = None,
        query: Mapping[str, Schema] | None = None,
        by_leader: bool = False,
        is_audited: bool = True,
        without_command: str = "",
    ) -> Route:
        """Add a route, whose fields are described at `Route`, and return it for the commands that send it."""
        row = Route(
            self.name,
            method,
            self.root + path,
            handler,
            right,
            summary,
            body,
            query or {},
            by_leader,
            is_audited,
            without_command,
        )
        self.routes.append(row)
        return row
