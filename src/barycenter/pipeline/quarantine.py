"""What could not be read, kept for a person to look at: `<data>/quarantine`.

quarantine/batch-<id>.jsonl       one line for each: kind, file, reason, and the text of a decision's line
quarantine/<file>                 the report file itself

A refused report or decision never stops the rest. If there is no room to keep one it is counted and logged all the
same.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Literal
from urllib.parse import unquote, urlparse

import msgspec
import structlog

from barycenter.load.reports import decode_report
from barycenter.pipeline.layout import write_atomically

log = structlog.get_logger(__name__)

_KEPT_BYTES = 16 * 2**20
_NO_REPORT = (
    "not a load report with brokerId, incarnation, sequence and a lastUpdate from 1970 on and at most a day ahead of"
    " the time its file was written: if that is it, set the broker's clock"
)


class Refused(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A report file, or a line of a decision log (`text`), and why it was refused."""

    kind: Literal["report", "decision"]
    file: str
    reason: str
    text: str = ""


def refused_report(file: str) -> Refused:
    """Say what is wrong with the report in `file`, a path or a file URL."""
    path = local_path(file)
    try:
        content = path.read_bytes()
    except OSError:
        return Refused("report", path.name, _NO_REPORT)
    try:
        decode_report(content)
    except msgspec.DecodeError as error:
        return Refused("report", path.name, str(error))
    except UnicodeDecodeError as error:
        return Refused("report", path.name, f"not UTF-8: {error.reason}")
    return Refused("report", path.name, _NO_REPORT)


def keep_refused(folder: Path, batch_id: int, refused: Iterable[Refused], files: Iterable[str]) -> None:
    """List what a batch refused and keep copies of its report `files`; a batch that runs again writes the same."""
    lines = b"".join(msgspec.json.encode(each) + b"\n" for each in refused)
    if not lines:
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / f"batch-{batch_id:012d}.jsonl", lines)
        for file in map(local_path, files):
            if file.is_file() and file.stat().st_size <= _KEPT_BYTES:
                shutil.copyfile(file, folder / file.name)
    except OSError as error:
        log.warning("quarantine_not_written", batch_id=batch_id, reason=str(error))


def remove_old(folder: Path, *, now_s: float, days: int) -> None:
    """Delete what was put here more than `days` days before `now_s`, by the clock of the file system."""
    for file in folder.glob("*"):
        if now_s - file.stat().st_mtime > days * 86_400:
            file.unlink()


def local_path(file: str) -> Path:
    """The path of a file as Spark names it."""
    return Path(unquote(urlparse(file).path)) if file.startswith("file:") else Path(file)
