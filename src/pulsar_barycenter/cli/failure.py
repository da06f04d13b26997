"""Ends a command that failed: with exit code 1 and a message."""

import sys

import click


def fail(text: str) -> None:
    """Print an error message and end the program with exit code 1."""
    click.echo(f"barycenter: {text}", err=True)
    sys.exit(1)
