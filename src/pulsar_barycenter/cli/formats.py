"""The options that select the output format: `--format json`, or `--json` for short."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])


def with_format(*forms: str, json: str) -> Callable[[Command], Command]:
    """Add the format options to a command, as its argument `form`.

    The last given option counts; the default is the first of `forms`. `json` describes the JSON output in the help.
    """

    def add(command: Command) -> Command:
        command = click.option("--json", "form", flag_value="json", help="The same as --format json.")(command)
        return click.option(
            "--format", "form", type=click.Choice(forms), default=forms[0], show_default=True, help=f"json: {json}."
        )(command)

    return add
