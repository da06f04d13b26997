"""How a command ends that cannot do what it was asked for: with 1, and a sentence for the person who asked."""

import sys

import click


def fail(text: str) -> None:
    """End the program with an error that a tired operator understands."""
    click.echo(f"barycenter: {text}", err=True)
    sys.exit(1)
