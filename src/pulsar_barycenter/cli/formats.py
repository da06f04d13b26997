"""How a command is asked for JSON: `--format json`, or `--json` for short, whichever comes to mind."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])


def with_format(*forms: str, json: str) -> Callable[[Command], Command]:
    """Give a command the options, of which the last one counts, as its argument `form`; without, the first of `forms`.

    `json` says what is printed as JSON.
    """

    def add(command: Command) -> Command:
        command = click.option("--json", "form", flag_value="json", help="The same as --format json.")(command)
        return click.option(
            "--format", "form", type=click.Choice(forms), default=forms[0], show_default=True, help=f"json: {json}."
        )(command)

    return add
