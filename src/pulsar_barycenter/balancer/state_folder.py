"""The state of a balancer in a folder, so that a process that starts again goes on where the last one ended.

| file | content |
|---|---|
| `cluster.json` | which cluster it is; a folder is for one cluster |
| `moves.journal` | every move that this program began, as the journals of `execute`; `barycenter undo` reverses it |
| `splits.journal` | every split that this program began |
| `taken-over.json` | what is to be put back in the cluster; there while its own shedding or splitting is off |
| `state.json` | the score, the memory of the shedder, the would-be places of bundles |
| `rounds.jsonl` | one line for each round; `rounds.jsonl.1` are older ones |
| `proposal.json`, `approval.json` | a round that waits for a person, and the answer |
| `policies.jsonl` | the rules of administrators, a line for each change, for `watch --data` |
| `collect.json`, `load-reports/` | what `collect` writes: `pipeline run --data` makes tables of it |

Files that are replaced are written aside and synced first. If the folder is lost, the score begins anew, and the lease
still has what is to be put back.
"""

from collections import deque
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from pulsar_barycenter.balancer.facts import FactsError, Identity
from pulsar_barycenter.balancer.judging.scoring import Score
from pulsar_barycenter.balancer.options import HOUR_MS
from pulsar_barycenter.bounds.json_text import decode_json
from pulsar_barycenter.load.strategy import MemoryDocument
from pulsar_barycenter.observer.recorded_policies import PoliciesFile
from pulsar_barycenter.operations.journal import Entry, move_journal
from pulsar_barycenter.operations.own_balancing import TakenOver
from pulsar_barycenter.operations.splitting import SplitEntry, split_journal
from pulsar_barycenter.whole_files.appearing import write_durably
from pulsar_barycenter.whole_files.lines import append_line
from pulsar_barycenter.whole_files.reading import read_regular

MAX_ROUNDS_BYTES: Final = 64 << 20
"""The size of `rounds.jsonl` from which on it is kept as `rounds.jsonl.1`, and begun anew."""
_MAX_FILE_BYTES: Final = 256 << 20
_REMEMBERED_MS: Final = 24 * HOUR_MS

T = TypeVar("T")


class Kept(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The state that a process of the balancer leaves for the next one. `places` maps a bundle to the broker that would
    own it by the decisions of `observe`, `moved` a bundle to the time of its last would-be move (epoch ms). `peaks`
    maps hours since the epoch to the greatest load of the hour in brokers, of the last two weeks.
    """

    score: Score = Score()
    memory: MemoryDocument = MemoryDocument()
    strategy: str = ""
    places: dict[str, str] = {}
    moved: dict[str, int] = {}
    peaks: dict[int, float] = {}


class StateError(Exception):
    """The state folder of a balancer cannot be used; the text says what to do."""


class StateFolder:
    """The folder `path` in which a balancer keeps its state, and the files in it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.journal = move_journal(path / "moves.journal")
        self.policies = PoliciesFile(path)
        self._entries: deque[Entry] = deque()
        self._split_journal = split_journal(path / "splits.journal")
        self._split_entries: deque[SplitEntry] = deque()

    def check(self, identity: Identity) -> None:
        """Check that this folder belongs to the cluster `identity`; if it belongs to none yet, record that cluster.

        Raises:
            FactsError: it is the folder of another cluster.
            StateError: a file cannot be read.
            OSError: a file cannot be written.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        known = self._read("cluster.json", Identity)
        if known is None:
            self._write("cluster.json", identity)
        elif known != identity:
            raise FactsError(
                f"{self.path} is the state of the cluster {known}, and these brokers belong to {identity}; name "
                "another folder with --state"
            )

    # ---- moves ----

    def read_moves(self) -> list[Entry]:
        """Read the journal, and return its entries.

        Raises:
            JournalError: the journal cannot be read.
        """
        entries = self.journal.read()
        self._entries = deque(entries)
        return entries

    def note_move(self, entry: Entry) -> None:
        """Append an entry to the journal; it is on the disk when this returns."""
        self.journal.append(entry)
        self._entries.append(entry)

    def moves_since(self, since_ms: int) -> list[Entry]:
        """Return the journal's entries about moves since `since_ms` (epoch ms), oldest first, without those that are
        more than 24 hours older than the newest entry.
        """
        newest_ms = self._entries[-1].at if self._entries else 0
        while self._entries and newest_ms - self._entries[0].at > _REMEMBERED_MS:
            self._entries.popleft()
        return [entry for entry in self._entries if entry.at >= since_ms]

    # ---- splits ----

    def read_splits(self) -> None:
        """Read the journal of splits.

        Raises:
            JournalError: the journal cannot be read.
        """
        self._split_entries = deque(self._split_journal.read())

    def note_split(self, entry: SplitEntry) -> None:
        """Append an entry to the journal of splits; it is on the disk when this returns."""
        self._split_journal.append(entry)
        self._split_entries.append(entry)

    def splits_since(self, since_ms: int) -> list[SplitEntry]:
        """Return the journal's entries about splits since `since_ms` (epoch ms), oldest first, without those that are
        more than 24 hours older than the newest entry.
        """
        newest_ms = self._split_entries[-1].at if self._split_entries else 0
        while self._split_entries and newest_ms - self._split_entries[0].at > _REMEMBERED_MS:
            self._split_entries.popleft()
        return [entry for entry in self._split_entries if entry.at >= since_ms]

    # ---- what is to be put back, and what goes on ----

    def taken_over(self) -> TakenOver | None:
        """Return the settings that are to be put back in the cluster; None: there are none.

        Raises:
            StateError: the file cannot be read.
        """
        return self._read("taken-over.json", TakenOver)

    def remember(self, taken_over: TakenOver | None) -> None:
        """Record the settings that are to be put back; None: record that they were put back."""
        if taken_over is None:
            (self.path / "taken-over.json").unlink(missing_ok=True)
        else:
            self._write("taken-over.json", taken_over)

    def kept(self, strategy: str) -> Kept:
        """Return the state that the last run left; an empty one if there is none. If that run used another strategy,
        the memory of the shedder is empty.

        Raises:
            StateError: the file cannot be read.
        """
        kept = self._read("state.json", Kept) or Kept()
        return kept if kept.strategy == strategy else msgspec.structs.replace(kept, memory=MemoryDocument())

    def keep(self, kept: Kept) -> None:
        self._write("state.json", kept)

    def note_round(self, record: msgspec.Struct) -> None:
        """Append the record of a round to the file rounds.jsonl. A file that is already too large is renamed to
        rounds.jsonl.1 first, in place of an older file of that name.

        Raises:
            OSError: the record cannot be written; the next call replaces what was written of it.
        """
        file = self.path / "rounds.jsonl"
        if file.exists() and file.stat().st_size > MAX_ROUNDS_BYTES:
            file.replace(file.with_name("rounds.jsonl.1"))
        append_line(file, msgspec.json.encode(record))

    # ---- files ----

    def _read(self, name: str, kind: type[T]) -> T | None:
        return read_file(self.path / name, kind)

    def _write(self, name: str, value: msgspec.Struct) -> None:
        write_file(self.path / name, value)


def read_file(file: Path, kind: type[T]) -> T | None:
    """Return the value of type `kind` that a JSON file has; None if there is no file.

    Raises:
        StateError: the content is not of this type, or the file cannot be read.
    """
    try:
        return decode_json(read_regular(file, _MAX_FILE_BYTES), kind)
    except FileNotFoundError:
        return None
    except msgspec.DecodeError as error:
        raise StateError(
            f"{file} is damaged: {error}; restore the file from a copy, or delete the file to start without its data"
        ) from error
    except OSError as error:
        raise StateError(f"{file} cannot be read: {error.strerror or error}") from error


def write_file(file: Path, value: msgspec.Struct) -> None:
    """Replace a file by the JSON of a value; it is on the disk when this returns.

    Raises:
        OSError: the file cannot be written.
    """
    write_durably(file, msgspec.json.encode(value))
