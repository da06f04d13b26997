"""Files that have a line of JSON for each change of something that seldom changes, oldest first."""

from pathlib import Path
from typing import Final, TypeVar

import msgspec

from pulsar_barycenter.bounds.json_text import decode_json
from pulsar_barycenter.whole_files.lines import append_line
from pulsar_barycenter.whole_files.reading import read_regular

MAX_FILE_BYTES: Final = 64 << 20
"""A file of this size or more gets no more records."""
_MAX_RECORD_BYTES: Final = 4 << 20
"""The last record may end this number of bytes after MAX_FILE_BYTES; a longer file cannot be read."""

T = TypeVar("T", bound=msgspec.Struct)


def append_record(file: Path, record: msgspec.Struct) -> None:
    """Append a record to the file, which is created if it does not exist. If the file has MAX_FILE_BYTES bytes or more,
    the record is dropped without an error; the limit is so high that usual changes reach it only after years.

    Raises:
        OSError: the file cannot be written.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    if not file.exists() or file.stat().st_size < MAX_FILE_BYTES:
        append_line(file, msgspec.json.encode(record))


def read_records(file: Path, kind: type[T]) -> list[T]:
    """Return the records of a file, oldest first; an empty list if there is no file. An incomplete last line is left
    out.

    Raises:
        msgspec.DecodeError: a line is not a record of the class `kind`.
        OSError: the file cannot be read.
    """
    try:
        text = read_regular(file, MAX_FILE_BYTES + _MAX_RECORD_BYTES)
    except FileNotFoundError:
        return []
    whole = text[: text.rfind(b"\n") + 1]
    return [decode_json(line, kind) for line in whole.splitlines()]
