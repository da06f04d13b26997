"""Numbers with their nouns, here and in every message of the source."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

import pulsar_barycenter
from pulsar_barycenter.naming.counted import count_of

SOURCE: Final = Path(pulsar_barycenter.__file__).parent
NOUNS: Final = (
    *("batches", "brokers", "bundles", "configurations", "consumers", "decisions", "entries", "files", "ledgers"),
    *("messages", "moves", "namespaces", "partitions", "producers", "properties", "reports(?! no )", "runs", "samples"),
    *("scenarios", "seeds", "sessions", "steps", "subscriptions", "topics", "traces", "unloads"),
)
WITHOUT_NAMES: Final = ("protocol", "standalone")
"""Rooms that do not know `naming`."""
PLURAL: Final = re.compile(rf"^ (?:{'|'.join(NOUNS)})\b")


@pytest.mark.parametrize(
    ("count", "noun", "text"),
    [
        *((0, "bundle", "0 bundles"), (1, "bundle", "1 bundle"), (1234, "bundle", "1,234 bundles")),
        *((1, "batch", "1 batch"), (2, "batch", "2 batches"), (3, "entry", "3 entries"), (2, "key", "2 keys")),
    ],
)
def test_one_is_singular_and_all_else_plural_with_digits_in_groups(count: int, noun: str, text: str) -> None:
    assert count_of(count, noun) == text


def test_no_message_writes_a_plural_behind_a_number_that_may_be_one() -> None:
    """`count_of` writes both. A constant, which is not one, may precede a plural; a name may precede a verb."""
    found = [
        f"{file.relative_to(SOURCE)}:{line}: {text}"
        for file in sorted(SOURCE.rglob("*.py"))
        if file.relative_to(SOURCE).parts[0] not in WITHOUT_NAMES
        for line, text in plurals(file)
    ]
    assert found == []


def plurals(file: Path) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.JoinedStr):
            for value, text in zip(node.values, node.values[1:], strict=False):
                is_number = isinstance(value, ast.FormattedValue) and not is_known(value.value)
                if is_number and isinstance(text, ast.Constant) and PLURAL.match(str(text.value)):
                    yield node.lineno, ast.unparse(node)


def is_known(value: ast.expr) -> bool:
    return isinstance(value, ast.Name) and (value.id.isupper() or value.id == "name")


def test_reasons_have_their_numbers_written_by_one_formatter() -> None:
    """`format_figure` knows how many digits a percent has, and that 12,346 is not 1.235e+04."""
    own = [
        f"{file.relative_to(SOURCE)}:{number}"
        for file in sorted((SOURCE / "load").rglob("*.py"))
        for number, line in enumerate(file.read_text().splitlines(), 1)
        if re.search(r":[,]?\.\dg\}", line)
    ]
    assert own == []
