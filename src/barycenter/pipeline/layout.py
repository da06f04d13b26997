"""Where the pipeline reads and writes under a data directory.

decisions/*.jsonl                   the decision logs, written by the brokers
load-reports/<yyyy-mm-dd>/*.json    the report log, written by the brokers; read reports are moved to the archive
pipeline/archive/...                read reports, under their former full path
pipeline/checkpoint/from-<batch>/   Spark's record of the files read, one generation (see `pipeline.job`)
quarantine/                         what could not be read, see `pipeline.quarantine`
pipeline/state/<batch>/             what the next batch starts from, see `pipeline.state`
pipeline/publication/latest.json    for the leader, see `load.publication`
pipeline/status.json                for people and monitors, see `pipeline.status`
tables/<name>/date=<yyyy-mm-dd>/    the tables, see `pipeline.tables`
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from barycenter.load.publication import PUBLICATION_FILE


@dataclass(frozen=True, slots=True)
class PipelineLayout:
    """The paths of one data directory; `data` is absolute."""

    data: Path

    @classmethod
    def of(cls, data: str | os.PathLike[str]) -> PipelineLayout:
        return cls(Path(data).absolute())

    @property
    def report_log(self) -> Path:
        return self.data / "load-reports"

    @property
    def decisions(self) -> Path:
        return self.data / "decisions"

    @property
    def quarantine(self) -> Path:
        return self.data / "quarantine"

    @property
    def tables(self) -> Path:
        return self.data / "tables"

    @property
    def home(self) -> Path:
        return self.data / "pipeline"

    @property
    def archive(self) -> Path:
        return self.home / "archive"

    @property
    def checkpoints(self) -> Path:
        return self.home / "checkpoint"

    @property
    def state(self) -> Path:
        return self.home / "state"

    @property
    def publication(self) -> Path:
        return self.home / "publication" / PUBLICATION_FILE

    @property
    def status(self) -> Path:
        return self.home / "status.json"

    @property
    def lock(self) -> Path:
        return self.home / "lock"

    def create(self) -> None:
        """Make the folders that a reader or Spark expects to be there."""
        for folder in (self.report_log, self.tables, self.archive, self.checkpoints, self.state):
            folder.mkdir(parents=True, exist_ok=True)
        self.publication.parent.mkdir(parents=True, exist_ok=True)


def write_atomically(file: Path, content: bytes) -> None:
    """Replace `file` by `content`: a reader, or a machine that lost power, finds the old or the new, never a part."""
    temporary = file.with_name(f".{file.name}-{os.getpid()}")
    with temporary.open("wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
    temporary.replace(file)


def sync(path: Path) -> None:
    """Wait until the content of `path` is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
