"""How answers are printed: as `pulsar-admin` does, or as JSON in one line.

A text is printed without quotes, and a list with one element on each line. Every other answer is JSON as Jackson's
pretty printer writes it, without null fields. So scripts for the output of `pulsar-admin` can read this output.

Source: Pulsar's `CliCommand.print`.
"""

import enum
import json
from collections.abc import Iterator
from typing import Any


class Form(enum.Enum):
    """The form in which the answer of a command of `barycenter admin` is printed.

    BY_KIND: a text without quotes, a list with one element on each line, everything else as JSON on several lines.
    JSON: as BY_KIND, but a list as JSON. VALUE: every value as JSON, also null. PAIRS: a map, with one line for each
    key: the key, four blanks, and the value.
    """

    BY_KIND = enum.auto()
    JSON = enum.auto()
    VALUE = enum.auto()
    PAIRS = enum.auto()


def lines_of(answer: Any, form: Form = Form.BY_KIND) -> Iterator[str]:
    """Yield the lines of an answer, as `pulsar-admin` prints them; no line for None, except in the form VALUE."""
    if form is Form.VALUE:
        yield pretty(answer)
    elif answer is None:
        return
    elif form is Form.PAIRS and isinstance(answer, dict):
        for key, value in answer.items():
            yield f"{key}    {_in_a_pair(value)}"
    elif isinstance(answer, list) and form is not Form.JSON:
        for each in answer:
            yield each if isinstance(each, str) else pretty(each)
    else:
        yield answer if isinstance(answer, str) else pretty(answer)


def compact(answer: Any) -> str:
    """Return an answer as JSON in one line."""
    return json.dumps(answer, ensure_ascii=False, separators=(",", ":"))


def pretty(value: Any, indent: str = "") -> str:
    """Return a value as JSON text, as Jackson's default pretty printer writes it: one field per line, two blanks per
    level, arrays in one line, blanks around colons; without fields that are null.
    """
    if isinstance(value, dict):
        inner = f"{indent}  "
        members = [
            f"{inner}{_scalar(str(key))} : {pretty(each, inner)}" for key, each in value.items() if each is not None
        ]
        if not members:
            return "{ }"
        return "{\n" + ",\n".join(members) + f"\n{indent}}}"
    if isinstance(value, list):
        return f"[ {', '.join(pretty(each, indent) for each in value)} ]" if value else "[ ]"
    return _scalar(value)


def _in_a_pair(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(str, value))}]"
    return value if isinstance(value, str) else compact(value)


def _scalar(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
