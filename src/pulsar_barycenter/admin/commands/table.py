"""What a command of `barycenter admin` is: rows of data, for one generic runner.

Values of what was typed are kept by name: texts, lists of texts, maps, numbers, truths. A topic and a namespace are
checked and written in full before anything is asked.
"""

import enum
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol
from urllib.parse import quote

from pulsar_barycenter.admin.commands.output import Form
from pulsar_barycenter.admin.routes.route import Route

Values = Mapping[str, Any]

JSON: Final = "application/json"

_KEPT: Final = {"namespace": "/", "topic": "/%+"}
"""Values that fill several parts of a path, with the characters that are not to be encoded, or not once more."""
_SEVERAL_PARTS: Final = {"topic": "{domain}/{tenant}/{namespace}/{topic}", "namespace": "{tenant}/{namespace}"}
"""Those values, with the parts of a route's path that each fills."""


class Kind(enum.Enum):
    """What is typed: a word, a whole number, names separated by commas, pairs `key=value`, or the flag alone.

    Options of NAMES and PAIRS may be repeated and add up, as those of pulsar-admin; of one key all pairs have to agree.
    """

    TEXT = enum.auto()
    NUMBER = enum.auto()
    NAMES = enum.auto()
    PAIRS = enum.auto()
    SWITCH = enum.auto()


@dataclass(frozen=True, slots=True)
class Argument:
    """`name` says what it is, too: a `topic` and a `namespace` are checked, names of all these are completed."""

    name: str
    required: bool = True


@dataclass(frozen=True, slots=True)
class Flag:
    """`spellings` are separated by blanks, `key` is the name of the value."""

    spellings: str
    key: str
    help: str
    kind: Kind = Kind.TEXT
    required: bool = False
    choices: tuple[str, ...] = ()
    default: Any = None


class Session(Protocol):
    """A cluster to ask."""

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
        """Return the JSON of an answer, its text if it is none; `path` is encoded. `media_type` is the Content-Type of
        the body, which is JSON.

        Raises:
            AdminRequestError: the cluster refuses, or does not answer.
        """
        ...


Work = Callable[[Session, Values], Awaitable[Any]]
"""Does what a command is for and returns what is to be printed, None for nothing.

It raises WrongUsageError if what was typed does not go together.
"""


class WrongUsageError(ValueError):
    """What was typed makes no sense; the text says what to type."""


class NotDoneError(Exception):
    """The cluster answered, but not so that the command could do its work; the text says why."""


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
    """A group of commands."""

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
    """Return a command; `typed` are its arguments in their order, and its flags."""
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
    """Return the work of one request.

    Values of the names of its parts fill the path. `query` maps parameters to names of values; those that were not
    typed are left out.
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
        AdminRequestError: the cluster refuses, or does not answer.
    """
    path, params = path_of(route, values or {}), parameters(values or {}, query or {})
    return await session.call(route.method, path, params=params, body=body, media_type=media_type)


def path_of(route: Route, values: Values) -> str:
    """Return the path of a route, encoded, with values in the places of its parts.

    A `topic` is the value of domain, tenant, namespace and topic, a `namespace` that of tenant and namespace.
    """
    path = route.path
    for name, parts in _SEVERAL_PARTS.items():
        if name in values:
            path = path.replace(parts, f"{{{name}}}")
    return path.format(**{name: quote(str(value), safe=_KEPT.get(name, ":")) for name, value in values.items()})


def parameters(values: Values, query: Mapping[str, str]) -> dict[str, str]:
    """Return the parameters that were typed, as texts."""
    found = {}
    for parameter, name in query.items():
        value = values.get(name)
        if value is not None and value is not False:
            found[parameter] = "true" if value is True else str(value)
    return found


def fields(values: Values, names: Mapping[str, str]) -> dict[str, Any]:
    """Return a body of those fields that were typed; `names` maps fields to names of values."""
    return {field: values[name] for field, name in names.items() if values.get(name) is not None}


CLUSTER = Argument("cluster")
TENANT = Argument("tenant")
NAMESPACE = Argument("namespace")
TOPIC = Argument("topic")
FORCE = Flag("-f --force", "force", "Also what is in use.", Kind.SWITCH)
