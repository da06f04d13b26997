"""Numbers collected reports 1, 2, 3, ... for each incarnation of a broker, across restarts of the collector.

The pipeline counts a report once, by (broker, incarnation, sequence), and waits for missing numbers. A broker of Apache
Pulsar does not number its reports, so the collector does, and stores the last numbers in a small file. The file is
written before the reports: if the collector is killed between the two, a number is left out, but never used twice. If
the file is lost, the recording starts again under another incarnation.
"""

from pathlib import Path
from typing import Final

import msgspec

from pulsar_barycenter.bounds.json_text import decode_json
from pulsar_barycenter.whole_files.appearing import write_durably
from pulsar_barycenter.whole_files.reading import read_regular

OF_APACHE_PULSAR: Final = "started-"
"""The prefix of the incarnation if the broker does not report one; Barycenter's brokers do."""


_MAX_BYTES: Final = 64 << 20


class _Numbered(msgspec.Struct, rename="camel"):
    recording: str
    life: dict[str, str] = {}
    sequence: dict[str, int] = {}


class ReportNumbers:
    """Numbers the load reports that are recorded from each broker; the numbers are stored in `file`, so that they
    continue after a restart.
    """

    def __init__(self, file: Path, *, now_ms: int) -> None:
        """Continue with the numbers in `file`. If the file is missing or incomplete, begin a new recording, whose name
        is made from `now_ms` (epoch ms).

        Raises:
            OSError: the file exists and cannot be read.
        """
        self._file = file
        try:
            self._numbered = decode_json(read_regular(file, _MAX_BYTES), _Numbered)
        except (FileNotFoundError, msgspec.DecodeError):
            self._numbered = _Numbered(f"{now_ms:x}")

    def take(self, broker: str, life: str) -> tuple[str, int]:
        """Return the incarnation and the sequence number to record for the next report of a broker. `life` is a text
        from the report that differs with each start of the broker.
        """
        known = self._numbered
        if known.life.get(broker) != life:
            known.life[broker], known.sequence[broker] = life, 0
        known.sequence[broker] += 1
        return f"{life}-{known.recording}", known.sequence[broker]

    def keep(self) -> None:
        """Write the numbers to the file.

        Raises:
            OSError: the file cannot be written.
        """
        write_durably(self._file, msgspec.json.encode(self._numbered))
