"""The commands of `barycenter admin` as rows of data, which one generic runner executes.

The typed values are stored by name: texts, lists of texts, maps, numbers, booleans. Names of topics and namespaces are
checked and completed before a request is sent.
"""

import enum
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol
from urllib.parse import quote

from pulsar_barycenter.admin.client import Answer
from pulsar_barycenter.admin.commands.output import Form
from pulsar_barycenter.admin.routes.route import Route

Values = Mapping[str, Any]

JSON: Final = "application/json"

_KEPT: Final = {"namespace": "/", "topic": "/%+"}
"""Values that fill several parts of a path, with the characters that are not encoded (or are already encoded)."""
_SEVERAL_PARTS: Final = {"topic": "{domain}/{tenant}/{namespace}/{topic}", "namespace": "{tenant}/{namespace}"}
"""The same values, with the parts of a route's path that each fills."""


class Kind(enum.Enum):
    """The type of a value that the user gives in the command line: a word, a whole number, names separated by commas,
    pairs `key=value`, or a switch.

    Options of NAMES and PAIRS may be repeated, as with pulsar-admin; all pairs of one key must have the same value.
    """

    TEXT = enum.auto()
    NUMBER = enum.auto()
    NAMES = enum.auto()
    PAIRS = enum.auto()
    SWITCH = enum.auto()


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of a command. Its `name` is also its type: the value of an argument `topic` or `namespace` is checked
    and completed to the full name.
    """

    name: str
    required: bool = True


@dataclass(frozen=True, slots=True)
class Flag:
    """An option of a command. `spellings` are separated by blanks, such as "-m --messageId". The value that a user
    gives is in `Values` under `key`.
    """

    spellings: str
    key: str
    help: str
    kind: Kind = Kind.TEXT
    required: bool = False
    choices: tuple[str, ...] = ()
    default: Any = None


class Session(Protocol):
    """Sends requests of commands to a cluster."""

    @property
    def has_tls(self) -> bool: ...

    async def call(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: Any = None,
        media_type: str = ...,
    ) -> Any:
        """Send a request to the cluster, and return the JSON of the answer, or its text if it is not JSON. `path` is
        already encoded. `media_type` is the Content-Type of the body, which is always JSON.

        Raises:
            AdminRequestError: the cluster refuses the request, or does not answer.
        """
        ...

    async def read(self, path: str, *, params: Mapping[str, str] | None = None) -> Answer:
        """Send a GET request, and return the answer with its headers. Arguments and errors are those of `call`."""
        ...


Work = Callable[[Session, Values], Awaitable[Any]]
"""Executes a command and returns the answer to print, or None.

It raises WrongUsageError if the typed values cannot be combined.
"""


class WrongUsageError(ValueError):
    """The values that the user gave in the command line are not valid together; the text says what to give instead."""


class NotDoneError(Exception):
    """The cluster answered, but the command could not be executed; the text says why."""


@dataclass(frozen=True, slots=True)
class Command:
    name: str
    help: str
    work: Work
    arguments: tuple[Argument, ...] = ()
    flags: tuple[Flag, ...] = ()
    aliases: tuple[str, ...] = ()
    form: Form = Form.BY_KIND


@dataclass(frozen=True, slots=True)
class Resource:
    """A group of commands of `barycenter admin` for one kind of object, such as topics."""

    name: str
    help: str
    commands: tuple[Command, ...]


def command(
    name: str,
    help: str,  # noqa: A002
    work: Work,
    *typed: Argument | Flag,
    aliases: tuple[str, ...] = (),
    form: Form = Form.BY_KIND,
) -> Command:
    """Return a command; `typed` are its arguments in their order, and its options."""
    return Command(
        name,
        help,
        work,
        tuple(each for each in typed if isinstance(each, Argument)),
        tuple(each for each in typed if isinstance(each, Flag)),
        aliases,
        form,
    )


def request(
    route: Route,
    *,
    query: Mapping[str, str] | None = None,
    body: Callable[[Values], Any] | None = None,
) -> Work:
    """Return the function that carries out a command by sending one request.

    Each part of the path, such as `{tenant}`, is replaced by the value of the same name. `query` maps each parameter of
    the query to the name of a value; a parameter whose value the user did not give is left out.
    """

    async def work(session: Session, values: Values) -> Any:
        return await send(session, route, values, query=query, body=None if body is None else body(values))

    return work


async def send(
    session: Session,
    route: Route,
    values: Values | None = None,
    *,
    query: Mapping[str, str] | None = None,
    body: Any = None,
    media_type: str = JSON,
) -> Any:
    """Send one request, and return the answer; `query` is as in `request`, `media_type` as in `Session.call`.

    Raises:
        AdminRequestError: the cluster refuses the request, or does not answer.
    """
    path, params = path_of(route, values or {}), parameters(values or {}, query or {})
    return await session.call(route.method, path, params=params, body=body, media_type=media_type)


def path_of(route: Route, values: Values) -> str:
    """Return the encoded path of a route. Each part of the path, such as `{tenant}`, is replaced by its value.

    A `topic` fills domain, tenant, namespace and topic; a `namespace` fills tenant and namespace.
    """
    path = route.path
    for name, parts in _SEVERAL_PARTS.items():
        if name in values:
            path = path.replace(parts, f"{{{name}}}")
    return path.format(**{name: quote(str(value), safe=_KEPT.get(name, ":")) for name, value in values.items()})


def parameters(values: Values, query: Mapping[str, str]) -> dict[str, str]:
    """Return the parameters of a request's query, as texts. `query` maps each parameter to the name of a value;
    parameters whose value the user did not give are left out.
    """
    found = {}
    for parameter, name in query.items():
        value = values.get(name)
        if value is not None and value is not False:
            found[parameter] = "true" if value is True else str(value)
    return found


def fields(values: Values, names: Mapping[str, str]) -> dict[str, Any]:
    """Return the body of a request with the fields for which the user gave values; `names` maps fields to names of
    values.
    """
    return {field: values[name] for field, name in names.items() if values.get(name) is not None}


CLUSTER = Argument("cluster")
TENANT = Argument("tenant")
NAMESPACE = Argument("namespace")
TOPIC = Argument("topic")
FORCE = Flag("-f --force", "force", "Delete it even if it is in use.", Kind.SWITCH)
