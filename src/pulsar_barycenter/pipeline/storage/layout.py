"""The paths that the pipeline reads and writes in a data directory.

decisions/*.jsonl                   the decision logs, written by the brokers
load-reports/<yyyy-mm-dd>/*.json    the report log, written by the brokers; read reports are moved to the archive
pipeline/archive/...                read reports, under their former full path
pipeline/checkpoint/from-<batch>/   Spark's record of the files it read, one generation, see `stream.generations`
quarantine/                         input that could not be read, see `reports.quarantine`
pipeline/lock                       held by the process that runs the pipeline, see `lock`
pipeline/shards/<batch>-<run>/      samples and windows by shard, see `sharded.blocks`
pipeline/state/<batch>/             the state from which the next batch starts, see `stream.state`
pipeline/publication/latest.json    for the leader, see `load.reports.publication`; next to it are the changes that
                                    follow it, `latest.json.after-<batch>`, and `looked`, the heartbeat of the pipeline
pipeline/deletion/                  present while the data of a tenant is deleted, see `deletion`
pipeline/status.json                for operators and monitors, see `running.status`
tables/<name>/date=<yyyy-mm-dd>/    the tables, see `tables.files`

The constants are relative paths, as `files.Storage` takes them; `PipelineLayout` has the full paths of a local folder.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pulsar_barycenter.load.reports.publication import PUBLICATION_FILE
from pulsar_barycenter.pipeline.storage.files import LocalStorage, Storage

REPORT_LOG: Final = "load-reports"
DECISIONS: Final = "decisions"
QUARANTINE: Final = "quarantine"
TABLES_FOLDER: Final = "tables"
HOME: Final = "pipeline"
ARCHIVE: Final = f"{HOME}/archive"
CHECKPOINTS: Final = f"{HOME}/checkpoint"
STATE: Final = f"{HOME}/state"
SHARDS: Final = f"{HOME}/shards"
PUBLICATION: Final = f"{HOME}/publication/{PUBLICATION_FILE}"
DELETION: Final = f"{HOME}/deletion"
STATUS: Final = f"{HOME}/status.json"
LOCK: Final = f"{HOME}/lock"


def create_folders(storage: Storage) -> None:
    """Create those folders of a data directory that Spark and readers of the tables need, unless they exist."""
    for folder in (REPORT_LOG, TABLES_FOLDER, ARCHIVE, CHECKPOINTS, STATE, f"{HOME}/publication"):
        storage.make_folder(folder)


@dataclass(frozen=True, slots=True)
class PipelineLayout(LocalStorage):
    """A data directory on this machine, with the full paths of its files and folders."""

    @classmethod
    def of(cls, data: str | os.PathLike[str]) -> "PipelineLayout":
        return cls(Path(os.path.abspath(data)))  # without "..", because Spark's names of files have none

    @property
    def data(self) -> Path:
        return self.root

    @property
    def report_log(self) -> Path:
        return self.root / REPORT_LOG

    @property
    def decisions(self) -> Path:
        return self.root / DECISIONS

    @property
    def quarantine(self) -> Path:
        return self.root / QUARANTINE

    @property
    def tables(self) -> Path:
        return self.root / TABLES_FOLDER

    @property
    def archive(self) -> Path:
        return self.root / ARCHIVE

    @property
    def checkpoints(self) -> Path:
        return self.root / CHECKPOINTS

    @property
    def state(self) -> Path:
        return self.root / STATE

    @property
    def publication(self) -> Path:
        return self.root / PUBLICATION

    @property
    def status(self) -> Path:
        return self.root / STATUS

    @property
    def lock(self) -> Path:
        return self.root / LOCK

    def create(self) -> None:
        """Create those folders of the data directory that Spark and readers of the tables need, unless they exist."""
        create_folders(self)
