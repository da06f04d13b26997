"""A key that is leased to a session: a persistent key whose value begins with a line that names the session."""

import re
from typing import Final

_LINE: Final = re.compile(rb'\{"leasedTo":"([0-9a-f]{32})"\}\n')


def leased(session: str, value: bytes) -> bytes:
    """Return the bytes to store for a `value` that is leased to `session`."""
    return b'{"leasedTo":"%s"}\n%s' % (session.encode(), value)


def split_lease(stored: bytes) -> tuple[str | None, bytes]:
    """Return the session to which a stored value is leased (None if to no session), and the value without the line that
    names the session.
    """
    line = _LINE.match(stored)
    return (None, stored) if line is None else (line[1].decode(), stored[line.end() :])
