"""Which tests and parameters only the full form has, which `make peer` runs."""

from collections.abc import Collection, Mapping
from typing import Any

import pytest
from _pytest.mark.structures import ParameterSet


def has_full_form(config: pytest.Config) -> bool:
    """Return whether tests and cases run that have only a full form."""
    return bool(config.getoption("--full-form") or config.getoption("--peer-required"))


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
