"""A key that is leased to a session: a persistent key whose value begins with a line that names the session."""

import re
from typing import Final

_LINE: Final = re.compile(rb'\{"leasedTo":"([0-9a-f]{32})"\}\n')


def leased(session: str, value: bytes) -> bytes:
    """Return the bytes to store for a key that has the value `value` and is leased to `session`: the leader deletes the
    key when this session ends. The bytes are a line that names the session, and the value.
    """
    return b'{"leasedTo":"%s"}\n%s' % (session.encode(), value)


def split_lease(stored: bytes) -> tuple[str | None, bytes]:
    """Split the stored bytes of a key. Return the session to which the key is leased, and the value of the key. The
    session is None if the key is not leased: it is not deleted when a session ends.
    """
    line = _LINE.match(stored)
    return (None, stored) if line is None else (line[1].decode(), stored[line.end() :])
