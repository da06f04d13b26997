"""The file `OUT/import.json`: how far an import is, from where it goes on.

The file is written after the reports of a window. An import that was killed in between makes the same reports again,
with the same numbers, and the pipeline counts each once.
"""

from pathlib import Path
from typing import Final

import msgspec

from pulsar_barycenter.bounds.json_text import decode_json
from pulsar_barycenter.observer.prometheus.reports import Followed, Hardware
from pulsar_barycenter.observer.prometheus.series import ImportRefusedError
from pulsar_barycenter.whole_files.appearing import write_durably
from pulsar_barycenter.whole_files.reading import read_regular

FILE: Final = "import.json"
_MAX_BYTES: Final = 1 << 30
_MISSING: Final = (
    ({"producers", "consumers"}, "sessions: without them, disturbance is counted in bundles"),
    ({"cpu"}, "usage of CPU: without it, replays use a default model of brokers"),
    ({"network_in", "network_out"}, "usage of the network"),
    ({"started"}, "starts of brokers: without them, a restart is not seen"),
)
"""Sets of values, and what an import does not know if no metric of a set has a value."""


class Wanted(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The options that decide what an import reads. A later run into the same folder is refused if any of them differs,
    except `source`. `is_by_topic` is whether metrics of topics are read, and not metrics of bundles.
    """

    source: str
    cluster: str
    labels: list[tuple[str, str]]
    step_ms: int
    hardware: Hardware
    is_by_topic: bool


class Progress(msgspec.Struct, rename="camel", kw_only=True):
    """The state of an import, all times in epoch ms: `begin_ms` is its first step, `next_ms` the next step to import,
    and `since_ms` the begin of the period that the options ask for. `figures` names the metrics that had values.
    """

    wanted: Wanted
    since_ms: int
    begin_ms: int
    next_ms: int
    is_apache_pulsar: bool
    followed: Followed
    figures: list[str] = []
    reports: int = 0

    def missing(self) -> list[str]:
        """Return a text for each kind of data that the metrics did not have."""
        seen = set(self.figures)
        found = [text for figures, text in _MISSING if not figures & seen]
        if self.wanted.hardware.cores is None:
            found.append("cores: CPU counts in percent of a broker, as if each broker had one core")
        if self.wanted.hardware.network_gbits is None and {"network_in", "network_out"} & seen:
            found.append("capacity of the network, and so its usage")
        return [*found, "memory and direct memory"]


def read_progress(out: Path) -> Progress | None:
    """Return the state of the import in a folder; None if there is none.

    Raises:
        ImportRefusedError: the file is damaged.
        OSError: the file cannot be read.
    """
    file = out / FILE
    try:
        return decode_json(read_regular(file, _MAX_BYTES), Progress)
    except FileNotFoundError:
        return None
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise ImportRefusedError(
            f"{file} cannot be read: {error}; without this file report numbers could repeat, so import into another"
            " folder"
        ) from error


def write_progress(out: Path, progress: Progress) -> None:
    """Store the state of an import durably.

    Raises:
        OSError: the file cannot be written.
    """
    write_durably(out / FILE, msgspec.json.encode(progress))
