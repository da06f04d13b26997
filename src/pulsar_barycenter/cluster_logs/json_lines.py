"""A log as JSON lines in a file. A file that is too large becomes the previous file, which is replaced.

    <folder>/<broker>.jsonl, <folder>/<broker>.jsonl.1

A file of FILE_BYTES or more is renamed to `<broker>.jsonl.1`, which replaces the previous one. So a log has at most
about 2 × FILE_BYTES. A line that cannot be written costs one line in the process log.
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
    """Appends records, as lines of JSON, to the log file of one broker."""

    def __init__(self, folder: Path, broker_id: str, *, lost: str) -> None:
        """Prepare to append; no file is opened yet. `lost` is the event that is logged for a line that could not be
        written.
        """
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
                # a broker that was killed, or a full disk, may have left an incomplete line
                end = b"\n" if self._may_be_cut and _is_cut(file) else b""
                self._may_be_cut = True
                lines.write(end + msgspec.json.encode(record) + b"\n")
            self._may_be_cut = False
        except OSError as error:
            log.warning(self._lost, file=str(file), reason=str(error))


def _is_cut(file: Path) -> bool:
    """Return whether the last line of a file is incomplete."""
    with file.open("rb") as content:
        if not content.seek(0, os.SEEK_END):
            return False
        content.seek(-1, os.SEEK_END)
        return content.read(1) != b"\n"
