"""A log as lines of JSON in a file; one that has grown large is set aside, and the one before it is gone.

    <folder>/<broker>.jsonl, <folder>/<broker>.jsonl.1

A file grown beyond FILE_BYTES is renamed to `<broker>.jsonl.1`, in place of the one before. What cannot be written
costs a line in the process log.
"""

import os
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec
import structlog

log = structlog.get_logger(__name__)

FILE_BYTES: Final = 64 * 1_048_576


class JsonLines:
    def __init__(self, folder: Path, broker_id: str, *, lost: str) -> None:
        """`lost` is the event by which it is told that a line could not be written."""
        self._file = folder / f"{broker_id.replace(':', '_').replace('/', '_')}.jsonl"
        self._lost = lost
        self._may_be_cut = True

    def append(self, record: Any) -> None:
        file = self._file
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileNotFoundError):
                if file.stat().st_size >= FILE_BYTES:
                    os.replace(file, file.with_name(f"{file.name}.1"))
            with file.open("ab") as lines:
                # a broker that was killed may have left half a line, and so may a disk that was full
                end = b"\n" if self._may_be_cut and _is_cut(file) else b""
                self._may_be_cut = True
                lines.write(end + msgspec.json.encode(record) + b"\n")
            self._may_be_cut = False
        except OSError as error:
            log.warning(self._lost, file=str(file), reason=str(error))


def _is_cut(file: Path) -> bool:
    """Tell whether the last line of a file lacks its end."""
    with file.open("rb") as content:
        if not content.seek(0, os.SEEK_END):
            return False
        content.seek(-1, os.SEEK_END)
        return content.read(1) != b"\n"
