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

Values = Mapping[str, Any]

_PLACES: Final = {"namespace": "/", "topic": "/%+"}
"""Arguments that are several places of a path, with the characters that are not to be encoded, or not once more."""


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
        root: str = ...,
    ) -> Any:
        """Return the JSON of an answer, its text if it is none; `path` is encoded, and below `root`. `media_type` is
        the Content-Type of the body, which is JSON.

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
    method: str,
    path: str,
    *,
    query: Mapping[str, str] | None = None,
    body: Callable[[Values], Any] | None = None,
) -> Work:
    """Return the work of one request. `{name}` in `path` stands for a value, `query` maps parameters to names of
    values, of which those that were not typed are left out."""

    async def work(session: Session, values: Values) -> Any:
        return await session.call(
            method,
            filled(path, values),
            params=parameters(values, query or {}),
            body=None if body is None else body(values),
        )

    return work


def filled(path: str, values: Values) -> str:
    """Return a path with values in the places of their names."""
    return path.format(**{name: quote(str(value), safe=_PLACES.get(name, ":")) for name, value in values.items()})


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
