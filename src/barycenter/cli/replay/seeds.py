"""Seeds as a person types them: one, or a range."""

import click


def seeds_of(text: str) -> list[int]:
    """Return the seeds of `3` or `1-20`.

    Raises:
        click.UsageError: it is neither, or too many.
    """
    first, separator, last = text.partition("-")
    if not (first.isdecimal() and (last.isdecimal() or not separator)) or len(text) > 20:
        raise click.UsageError(f"--seeds {text}: give a number, or a range like 1-20")
    found = range(int(first), int(last or first) + 1)
    if not 1 <= len(found) <= 10_000:
        raise click.UsageError(f"--seeds {text}: give one to 10000 seeds")
    return list(found)
