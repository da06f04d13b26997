"""Ends a command that failed: with exit code 1 and a message."""

import sys

import click

from pulsar_barycenter.terminal.tables import printable


def fail(text: str) -> None:
    """Print an error message and end the program with exit code 1. Control characters but line breaks are replaced."""
    click.echo("\n".join(printable(line) for line in f"barycenter: {text}".split("\n")), err=True)
    sys.exit(1)
