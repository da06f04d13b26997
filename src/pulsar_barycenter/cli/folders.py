"""Sets the permissions of files that a command creates."""

import os

import click


def keep_private() -> None:
    """Set the umask so that new files of this process and its children are readable only by their user; existing files
    do not change.
    """
    before = os.umask(0o077)
    click.get_current_context().call_on_close(lambda: os.umask(before))
