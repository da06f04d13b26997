"""How collected reports are numbered: 1, 2, 3, ... within one life of a broker, across restarts of the collector.

The pipeline counts a report once, by (broker, incarnation, sequence), and waits for one that is missing before a later
one. A broker of Apache Pulsar numbers nothing, so the collector does, and remembers in a small file how far it got. The
numbers are kept before the reports they are for, so that a kill between the two leaves a number out and never gives it
twice. A recording whose file was lost begins anew under another incarnation.
"""

import os
from pathlib import Path
from typing import Final

import msgspec

OF_APACHE_PULSAR: Final = "started-"
"""How the incarnation of a collected report begins whose broker told none: Barycenter's brokers tell theirs."""


class _Numbered(msgspec.Struct, rename="camel"):
    recording: str
    life: dict[str, str] = {}
    sequence: dict[str, int] = {}


class ReportNumbers:
    """The numbers of one recording, kept in `file`."""

    def __init__(self, file: Path, *, now_ms: int) -> None:
        """Go on with what `file` says; `now_ms` names a new recording if there is none, or one that was torn.

        Raises:
            OSError: the file is there and cannot be read.
        """
        self._file = file
        try:
            self._numbered = msgspec.json.decode(file.read_bytes(), type=_Numbered)
        except (FileNotFoundError, msgspec.DecodeError):
            self._numbered = _Numbered(f"{now_ms:x}")

    def take(self, broker: str, life: str) -> tuple[str, int]:
        """Return incarnation and sequence of the next report of a broker; `life` differs with each of its starts."""
        known = self._numbered
        if known.life.get(broker) != life:
            known.life[broker], known.sequence[broker] = life, 0
        known.sequence[broker] += 1
        return f"{life}-{known.recording}", known.sequence[broker]

    def keep(self) -> None:
        """Write down what was taken.

        Raises:
            OSError: the file cannot be written.
        """
        self._file.parent.mkdir(parents=True, exist_ok=True)
        temporary = self._file.with_name(f".{self._file.name}-{os.getpid()}")
        with temporary.open("wb") as stream:
            stream.write(msgspec.json.encode(self._numbered))
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(self._file)
