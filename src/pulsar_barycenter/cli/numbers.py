"""The type of options whose value is a number with a range."""

import math
from typing import Any

import click


class Number(click.FloatRange):
    """A finite number within a range. `click.FloatRange` accepts "nan", with which no comparison is true, so that a
    limit would have no effect, and "inf", which has no duration and no rate.
    """

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number
