"""The note that a cluster's parent process leaves while it starts the pipeline again, for `barycenter pipeline status`.

Between the end of a pipeline process and the first word of the next one nothing in the data folder is written by a
pipeline. Without the note, somebody who looks then could only say that it was killed.
"""

from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec
import structlog

from pulsar_barycenter.standalone.data_directory import DataDirectory, holder_of

log = structlog.get_logger(__name__)

RESTART_FILE: Final = "pipeline/restart.json"


class Restart(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Process `pid`, started as `by`, starts the pipeline again since `since_ms` (epoch ms), for the `attempt`th time.

    `reason` is a sentence: how the last process ended.
    """

    by: str
    pid: int
    since_ms: int
    attempt: int
    reason: str


class RestartNote:
    """The note of one data folder. A full disk costs the note, not the restart."""

    def __init__(self, directory: DataDirectory) -> None:
        self._file = directory.root / RESTART_FILE

    def write(self, restart: Restart) -> None:
        unfinished = self._file.with_name(f".{self._file.name}")
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            unfinished.write_bytes(msgspec.json.encode(restart))
            unfinished.replace(self._file)
        except OSError as error:
            log.warning("pipeline_restart_not_noted", file=str(self._file), reason=str(error))

    def remove(self) -> None:
        with suppress(OSError):
            self._file.unlink(missing_ok=True)


def read_restart(root: Path) -> Restart | None:
    """Return the note in the data folder `root` if the process that wrote it still runs the cluster, else None."""
    try:
        restart = msgspec.json.decode((root / RESTART_FILE).read_bytes(), type=Restart)
    except (OSError, msgspec.DecodeError):
        return None
    return restart if holder_of(DataDirectory(root)) == restart.pid else None
