"""Tables on standard output: as wide as the terminal, or as a fixed width where nobody looks."""

import io
import sys

import click
from rich.console import Console
from rich.table import Table


def print_table(table: Table, *, plain_width: int) -> None:
    """Print `table` without trailing blanks; `plain_width` columns wide unless on a terminal."""
    console = Console(file=io.StringIO(), width=Console().width if sys.stdout.isatty() else plain_width)
    with console.capture() as captured:
        console.print(table)
    for line in captured.get().splitlines():
        click.echo(line.rstrip())
