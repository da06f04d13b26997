"""Which tests and cases only the full form has, which `make peer` runs.

Cases that are marked `full_form` are never in the short form. Of the cases of a test that is marked `drawn`, and of the
tests of a module that is marked `drawn_tests`, each commit draws others.
"""

import random
from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import groupby
from typing import Any

import pytest
from _pytest.mark.structures import ParameterSet

_divisor = 2
"""By how much the short form divides the numbers of examples."""


def has_full_form(config: pytest.Config) -> bool:
    """Return whether tests and cases run that have only a full form."""
    return bool(config.getoption("--full-form") or config.getoption("--peer-required"))


def choose_form(config: pytest.Config) -> None:
    """Have `examples` return the numbers of the form that runs. Call this before any test is imported."""
    global _divisor
    _divisor = 1 if has_full_form(config) else 2


def examples(count: int) -> int:
    """Return how many examples a property test draws: `count` in the full form, half of that in the short form."""
    return count // _divisor


def not_drawn(items: Iterable[pytest.Item], seed: int) -> set[pytest.Item]:
    """Return the cases that the short form leaves out, drawn by `seed`: of each test that is marked `drawn(count)`, all
    but `count` of its cases; of the tests that are marked `drawn(count, of=subject)` with the same subject, all but
    `count` of their cases together; of each module that is marked `drawn_tests(count)`, all cases of all but `count` of
    its tests. Cases that are marked `full_form` are not among those to draw from.
    """
    cases = [item for item in items if not item.get_closest_marker("full_form")]
    of_tests = _left_out(cases, "drawn", seed, whole=_drawn_of, part=lambda item: item.nodeid)
    return of_tests | _left_out(cases, "drawn_tests", seed, whole=_module_of, part=_test_of)


def _left_out(
    cases: Iterable[pytest.Item],
    marker: str,
    seed: int,
    *,
    whole: Callable[[pytest.Item], str],
    part: Callable[[pytest.Item], str],
) -> set[pytest.Item]:
    """Return the marked cases whose part is not among those that are drawn from the parts of their whole."""
    marked = [item for item in cases if item.get_closest_marker(marker)]
    left_out: set[pytest.Item] = set()
    for name, group in groupby(sorted(marked, key=lambda item: (whole(item), item.nodeid)), key=whole):
        found = list(group)
        (mark,) = found[0].iter_markers(marker)
        (count,) = mark.args
        parts = sorted({part(item) for item in found})
        random.Random(f"{seed} {name}").shuffle(parts)
        left_out.update(item for item in found if part(item) in parts[count:])
    return left_out


def _test_of(item: pytest.Item) -> str:
    """Return the name of the test that `item` is a case of."""
    return item.nodeid.partition("[")[0]


def _drawn_of(item: pytest.Item) -> str:
    """Return the subject of `item`, whose tests are drawn from together, or its test if there is no subject."""
    (mark,) = item.iter_markers("drawn")
    subject: str = mark.kwargs.get("of", _test_of(item))
    return subject


def _module_of(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]


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
