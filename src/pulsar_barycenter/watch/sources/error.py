"""The error of all sources. Needs no numpy, so that commands can import it."""


class WatchError(Exception):
    """The cluster cannot be shown; the text says what was tried and what to do."""
