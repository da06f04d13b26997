"""Reads a file that anybody may have put there: it has to be a regular file, and not larger than its reader expects."""

import errno
import os
import stat
from pathlib import Path


def read_regular(file: Path, max_bytes: int) -> bytes:
    """Return the content of a regular file of at most `max_bytes` bytes.

    A pipe or a device has no end, and opening a pipe may wait forever: neither is opened for longer than it takes to
    look at its kind. At most `max_bytes` + 1 bytes are read, also if the file grows meanwhile.

    Raises:
        OSError: the file cannot be read, is of another kind, or is larger.
    """
    descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as stream:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(
                errno.EINVAL,
                "the path is not a regular file but a folder, pipe or device; name a regular file, or move the"
                " folder, pipe or device away",
                str(file),
            )
        is_larger = os.fstat(descriptor).st_size > max_bytes
        content = b"" if is_larger else stream.read(max_bytes + 1)
    if is_larger or len(content) > max_bytes:
        raise OSError(errno.EFBIG, f"the file is larger than {max_bytes:,} bytes, the maximum", str(file))
    return content
