"""Who may read the files that a command makes."""

import os

import click


def keep_private() -> None:
    """Have all that this command and its children make readable by their user alone; what is there stays as it is."""
    before = os.umask(0o077)
    click.get_current_context().call_on_close(lambda: os.umask(before))
