"""Appends lines to a file so that each one is there whole, also after a full disk, a crash or a loss of power."""

import os
from pathlib import Path
from typing import Final

from pulsar_barycenter.whole_files.appearing import naming

_BLOCK: Final = 1 << 16


def append_line(file: Path, line: bytes) -> None:
    """Append `line` and a line break to a file that only this process writes; create the file if it does not exist.
    `line` itself has no line break.

    An incomplete last line, which a full disk or a crash has left, is deleted first, because the new line would become
    part of it. The new line is durable when this returns.

    Raises:
        OSError: the line cannot be written. The lines before it stay.
    """
    with naming(file), file.open("ab") as stream:
        stream.truncate(_whole_bytes(file))
        stream.write(line + b"\n")
        stream.flush()
        os.fsync(stream.fileno())


def _whole_bytes(file: Path) -> int:
    """Return the size in bytes of the complete lines of a file: without an incomplete last line."""
    with file.open("rb") as stream:
        end = stream.seek(0, os.SEEK_END)
        while end:
            begin = max(0, end - _BLOCK)
            stream.seek(begin)
            newline = stream.read(end - begin).rfind(b"\n")
            if newline >= 0:
                return begin + newline + 1
            end = begin
        return 0
