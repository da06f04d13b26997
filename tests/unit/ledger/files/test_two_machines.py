"""The fence between brokers on two machines with separate page caches of one file system."""

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pulsar_barycenter.ledger.errors import LedgerError, LedgerFencedError
from pulsar_barycenter.ledger.files import file_format as fmt
from pulsar_barycenter.ledger.files.file_storage import _create, _fence
from pulsar_barycenter.ledger.files.file_writer import FileLedgerWriter
from pulsar_barycenter.ledger.files.folder import LedgerFolder
from pulsar_barycenter.ledger.files.group_commit import GroupCommitter
from support.stale_files import StaleFiles, two_machines


class _ByHand(GroupCommitter):
    """Commits nothing by itself: the test decides when."""

    def __init__(self) -> None:
        pass

    def submit(self, writer: object) -> None:
        pass


class Play:
    """One ledger, its former owner on the first machine and a later one on the second.

    `reported` counts the entries that the former owner acknowledges; `found` are those that the later owner counts at
    its fence, in their order.
    """

    def __init__(self, files: StaleFiles, first: LedgerFolder, second: LedgerFolder, ledger_id: int) -> None:
        self.files, self.first, self.second, self.ledger_id = files, first, second, ledger_id
        self.reported = 0
        self.found: list[int] = []
        self.failure: object = None
        created = _create(first, ledger_id, 1)
        self.writer = FileLedgerWriter(first, _ByHand(), ledger_id, created, 1, lambda *_: None, lambda _: None)
        self.write()
        self.write()

    def write(self) -> None:
        """Have the former owner append an entry, acknowledge it if it may, and read the page for a consumer."""
        if self.failure is None:
            self.writer.append(b"an entry", 1, 0)
            outcome = self.writer.commit()
            self.reported += not isinstance(outcome, LedgerError)
            self.failure = outcome if isinstance(outcome, LedgerError) else None
            file = self.first.files.pin(self.first.path(self.ledger_id))
            self.files.pread(file.descriptor, 100, 0)
            self.first.files.unpin(file)

    def fence(self, epoch: int = 2) -> None:
        self.found.append(len(_fence(self.second, self.ledger_id, epoch).index))

    def fenced_by(self) -> int:
        """Return the fence in the file itself, without any cache."""
        data = Path(self.first.path(self.ledger_id)).read_bytes()
        return fmt.decode_header("", data[: fmt.HEADER_SIZE], self.ledger_id).fenced_by


@contextmanager
def plays(folder: Path, patch: pytest.MonkeyPatch, *, direct: bool) -> Iterator[Iterator[Play]]:
    """Yield plays without end, each with a ledger of its own."""
    files, *places = two_machines(folder, patch)
    first, second = (LedgerFolder(str(place), sync=True, max_open_files=999, direct=direct) for place in places)
    try:
        yield (Play(files, first, second, ledger_id) for ledger_id in itertools.count())
    finally:
        first.close()
        second.close()


def come_between(play: Play, machine: str, act: Callable[[], None], between: Callable[[], None], at: int) -> bool:
    """Do `act`, and `between` right before its operation number `at`; return False if there are fewer."""
    done = itertools.count()

    def before(where: str, operation: str) -> None:
        if where.endswith(machine) and next(done) == at:
            between()

    play.files.before = before
    act()
    play.files.before = lambda where, operation: None
    return next(done) > at


def held(play: Play) -> bool:
    """Let the former owner try once more, and return whether the fence stopped it."""
    before = play.reported
    play.write()
    lost = play.reported > play.found[0]
    return not lost and play.reported == before and isinstance(play.failure, LedgerFencedError)


def every_meeting(made: Iterator[Play]) -> Iterator[Play]:
    """Play a fence before each operation of a write, and a write before each operation of a fence."""
    for machine, fences_first in (("first", False), ("second", True)):
        for at in itertools.count():
            play = next(made)
            act, between = (play.fence, play.write) if fences_first else (play.write, play.fence)
            if not come_between(play, machine, act, between, at):
                break
            yield play


def test_past_the_caches_a_fence_holds_whenever_the_two_meet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was acknowledged is what the later owner found, nothing is acknowledged after, and the fence stays."""
    with plays(tmp_path, monkeypatch, direct=True) as made:
        met = 0
        for play in every_meeting(made):
            assert held(play), (play.reported, play.found, play.failure)
            play.fence(3)
            assert play.found[1] >= play.found[0]
            assert play.fenced_by() == 3
            met += 1
        assert met > 8


def test_through_the_caches_it_does_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With this substitute, brokers that rely on their caches serve a topic twice, and lose a fence."""
    with plays(tmp_path, monkeypatch, direct=False) as made:
        met = list(every_meeting(made))
        assert not all(map(held, met))
        assert any(play.reported > play.found[0] for play in met), "a message was acknowledged and is not found"
        assert any(play.fenced_by() == 1 for play in met), "the fence was written over"
