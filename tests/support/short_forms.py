"""Which tests and cases only the full form has, which `make peer` runs.

Cases that are marked `full_form` are never in the short form. Of the cases of a test that is marked `drawn`, each
commit draws others.
"""

import random
from collections.abc import Collection, Iterable, Mapping
from itertools import groupby
from typing import Any

import pytest
from _pytest.mark.structures import ParameterSet


def has_full_form(config: pytest.Config) -> bool:
    """Return whether tests and cases run that have only a full form."""
    return bool(config.getoption("--full-form") or config.getoption("--peer-required"))


def not_drawn(items: Iterable[pytest.Item], seed: int) -> set[pytest.Item]:
    """Return the cases that the short form leaves out: of each test that is marked `drawn(count)`, all but `count` of
    its cases, drawn by `seed`. Cases that are marked `full_form` are not among those to draw from.
    """
    cases = [item for item in items if item.get_closest_marker("drawn") and not item.get_closest_marker("full_form")]
    left_out: set[pytest.Item] = set()
    for test, group in groupby(sorted(cases, key=lambda item: item.nodeid), key=_test_of):
        found = list(group)
        (mark,) = found[0].iter_markers("drawn")
        (count,) = mark.args
        random.Random(f"{seed} {test}").shuffle(found)
        left_out.update(found[count:])
    return left_out


def _test_of(item: pytest.Item) -> str:
    """Return the name of the test that `item` is a case of."""
    return item.nodeid.partition("[")[0]


def params(values: Mapping[str, Any], *, short: Collection[str]) -> list[ParameterSet]:
    """Return a parameter for each of `values`, with its name as the id; a tuple has the values of several arguments.
    Those that are not in `short` have only a full form.
    """
    assert set(short) <= values.keys(), "a name of the short form is not among the values"
    return [
        pytest.param(
            *(value if isinstance(value, tuple) else (value,)),
            id=name,
            marks=[] if name in short else [pytest.mark.full_form],
        )
        for name, value in values.items()
    ]
