"""How a command ends that cannot do what it was asked for: with 1, and words for the person who asked."""

import sys

import click


def fail(text: str) -> None:
    """End the program with an error that a tired operator understands."""
    click.echo(f"barycenter: {text}", err=True)
    sys.exit(1)


def in_words(error: BaseException) -> str:
    """Return what an error says, without the number and quotes that Python puts around the system's words.

    Raises:
        BrokenPipeError: it is that. Whoever read the output has seen enough, and click ends the program with 1.
    """
    if isinstance(error, BrokenPipeError):
        raise error
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error)
