"""Ends a command that failed: with a message, and exit code 1 unless the command documents another."""

import sys

import click

from pulsar_barycenter.terminal.tables import printable


def fail(text: str, code: int = 1) -> None:
    """Print an error message on standard error and end the program with exit code `code`. Control characters other than
    line breaks are replaced.
    """
    click.echo("\n".join(printable(line) for line in f"barycenter: {text}".split("\n")), err=True)
    sys.exit(code)
