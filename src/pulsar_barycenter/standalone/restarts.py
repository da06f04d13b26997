"""A note in the data folder while a cluster's parent process restarts the pipeline, for `barycenter pipeline status`.

Between the end of a pipeline process and the first status of the next one, no pipeline writes to the data folder.
Without the note, the status at that time could only be "killed".
"""

from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from pulsar_barycenter.standalone.data_directory import DataDirectory, holder_of
from pulsar_barycenter.whole_files.appearing import write_whole

RESTART_FILE: Final = "pipeline/restart.json"


class Restart(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A note about restarts of the pipeline: process `pid`, the cluster's process, which was started by the command
    `by`, has tried `attempt` times since `since_ms` (epoch ms) to restart the pipeline.

    `reason` is a sentence that says how the pipeline's last process ended.
    """

    by: str
    pid: int
    since_ms: int
    attempt: int
    reason: str


class RestartNote:
    """Writes and removes the note about restarts of the pipeline (`Restart`), a file in a data folder. If it cannot be
    written, this is logged, and the pipeline is restarted without a note.
    """

    def __init__(self, directory: DataDirectory) -> None:
        self._file = directory.root / RESTART_FILE

    def write(self, restart: Restart) -> None:
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            write_whole(self._file, msgspec.json.encode(restart))
        except OSError as error:
            # imported with rich, for which the start of a cluster would wait
            import structlog

            log = structlog.get_logger(__name__)
            log.warning("pipeline_restart_not_noted", file=str(self._file), reason=str(error))

    def remove(self) -> None:
        with suppress(OSError):
            self._file.unlink(missing_ok=True)


def read_restart(root: Path) -> Restart | None:
    """Return the note about restarts of the pipeline in the data folder `root`. Return None if there is no note, or if
    the process that wrote it does not run the cluster any more.
    """
    try:
        restart = msgspec.json.decode((root / RESTART_FILE).read_bytes(), type=Restart)
    except (OSError, msgspec.DecodeError):
        return None
    return restart if holder_of(DataDirectory(root)) == restart.pid else None
