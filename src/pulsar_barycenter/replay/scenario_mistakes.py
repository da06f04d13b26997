"""Says what is wrong in a scenario file whose keys or values are not those of a scenario, in the words of TOML.

The decoder says it in the words of a programmer: "Invalid value 'broker-crash' - at `$.events[0].event`".
"""

import re
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import inspect

from pulsar_barycenter.load.managers import in_its_place

_Path: TypeAlias = Sequence[str | int]

_STEP: Final = re.compile(r"\.(\w+)|\[(\d+|\.\.\.)\]")
_EACH: Final = "..."
"""The step of a path to a value of a table whose keys the scenario does not name."""
_NAMED: Final = re.compile(r"(?:missing required|unknown) field `(.*)`")
_KINDS: Final = {"float": "a number", "int": "a whole number", "str": "a text in quotes", "array": "a list"}
_BOUNDS: Final = {"<=": "at most", ">=": "at least", "<": "less than", ">": "more than"}
_MAX_SHOWN: Final = 60
"""The maximum number of characters of a value that a message repeats."""


def in_words(error: msgspec.ValidationError, kind: type, content: dict[str, Any]) -> str:
    """Return a text that says what is wrong in `content` and what to do. `content` is a decoded TOML file, and `error`
    the error with which the decoder of `kind` (the class of the whole file) refused it.

    The text names the table, the key and the value, and the allowed names or values.
    """
    message, _, at = str(error).partition(" - at `$")
    path = [name or (_EACH if number == _EACH else int(number)) for name, number in _STEP.findall(at)]
    named = _NAMED.search(message)
    if named is not None and "missing" in message:
        return f"{_table(path) or 'the file'} has no key {named[1]}; add it"
    if named is not None:
        known = _keys(_kind_at(inspect.type_info(kind), path, content))
        return f"{_table(path) or 'the file'} has the unknown key {named[1]}; {in_its_place(named[1], known)}"
    where = _where(path)
    value = _value_at(content, path)
    shown = f"{where} is of another kind" if value is None else f"{where} is {_shown(value)}"
    if message.startswith("Invalid"):
        return f"{shown}; {in_its_place(str(value), _values(inspect.type_info(kind), path, content))}"
    return f"{shown}; {_wanted(message)}"


def _table(path: _Path) -> str:
    """Return the name of the table at `path` in the form of TOML, such as [load]; "" if `path` is empty, which means
    the whole file.
    """
    if path and isinstance(path[-1], int):
        return f"[[{'.'.join(map(str, path[:-1]))}]] number {path[-1] + 1}"
    return f"[{'.'.join(map(str, path))}]" if path else ""


def _where(path: _Path) -> str:
    if not path:
        return "the file"
    *before, last = path
    if isinstance(last, int):
        return f"value {last + 1} of {'.'.join(map(str, before))}"
    key = "one of the values" if last == _EACH else last
    return f"{_table(before)}: {key}" if before else key


def _shown(value: Any) -> str:
    text = f"{value!r}"
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"


def _wanted(message: str) -> str:
    """Return the part of a message that says what to give, such as "give a number at most 2.0" for the decoder's
    message "Expected `float` <= 2.0, got `int`".
    """
    kind, _, rest = message.partition("`")[2].partition("`")
    wanted = _KINDS.get(kind.partition(" | ")[0], "a table")
    bound = rest.partition(", got")[0].strip()
    for sign, word in _BOUNDS.items():
        bound = bound.replace(f"{sign} ", f"{word} ")
    return f"give {wanted}{' ' * bool(bound)}{bound}"


def _value_at(content: Any, path: _Path) -> Any:
    """Return the value at a path in `content`. Return None if the path does not name a single value: the decoder does
    not say which key of `settings` is wrong.
    """
    for step in path:
        if step == _EACH:
            return None
        content = content[step]
    return content


def _kind_at(kind: inspect.Type, path: _Path, content: Any) -> inspect.Type:
    """Return the type that a scenario file has at `path`. `content` is the content of the file, which decides between
    several possible tables.
    """
    for step in path:
        kind = _of(kind, content)
        if isinstance(kind, inspect.StructType):
            kind = next(field.type for field in kind.fields if field.encode_name == step)
        elif isinstance(kind, inspect.VarTupleType):
            kind = kind.item_type
        content = content[step]
    return _of(kind, content)


def _of(kind: inspect.Type, content: Any) -> inspect.Type:
    """Return the type of `content`. If `kind` is a choice of several tables (such as kinds of events), return the one
    whose tag `content` has; otherwise return `kind`.
    """
    if not isinstance(kind, inspect.UnionType):
        return kind
    tables = _tables(kind)
    return next((each for each in tables if not each.tag_field or each.tag == content.get(each.tag_field)), kind)


def _tables(kind: inspect.UnionType) -> list[inspect.StructType]:
    return [each for each in kind.types if isinstance(each, inspect.StructType)]


def _keys(kind: inspect.Type) -> list[str]:
    assert isinstance(kind, inspect.StructType)
    tag = [kind.tag_field] if kind.tag_field else []
    return [*tag, *(field.encode_name for field in kind.fields)]


def _values(kind: inspect.Type, path: _Path, content: Any) -> list[str]:
    """Return the texts that are allowed as the value at `path`. These are the members of an enumeration; or, for the
    key that says which kind of table it is (such as `event`), the names of the kinds. Return [] for all other keys.
    """
    table = _kind_at(kind, path[:-1], content)
    if isinstance(table, inspect.UnionType):
        return [str(each.tag) for each in _tables(table)]
    found = _kind_at(kind, path, content)
    return [str(each.value) for each in found.cls] if isinstance(found, inspect.EnumType) else []
