"""What a balancer keeps on the disk, and what passes between it and a person."""

import os
from pathlib import Path

import msgspec
import pytest

from pulsar_barycenter.balancer import state_folder
from pulsar_barycenter.balancer.approval import (
    Answer,
    ApprovalError,
    Proposal,
    answer,
    answer_to,
    propose,
    waiting,
    withdraw,
)
from pulsar_barycenter.balancer.facts import FactsError, Identity
from pulsar_barycenter.balancer.judging.scoring import Score, Side
from pulsar_barycenter.balancer.lease import Note, read_note
from pulsar_barycenter.balancer.state_folder import Kept, StateError, StateFolder
from pulsar_barycenter.load.strategy import MemoryDocument
from pulsar_barycenter.operations.journal_file import JournalError
from pulsar_barycenter.operations.own_balancing import SHEDDING, Remembered, TakenOver
from pulsar_barycenter.operations.plan import PlannedMove

ONE, OTHER = Identity(cluster="c1", store="zk:1"), Identity(cluster="c1", store="zk:2")
BEFORE = (Remembered(key=SHEDDING, value="true", is_override=True),)
MOVE = PlannedMove(bundle="t/n/0x00000000_0x80000000", source="a:1", destination="b:1")
PROPOSAL = Proposal(at=10, until=20, moves=(MOVE,))


def test_a_folder_is_for_one_cluster_even_if_names_are_equal(tmp_path: Path) -> None:
    StateFolder(tmp_path / "s").check(ONE)
    StateFolder(tmp_path / "s").check(ONE)
    with pytest.raises(FactsError, match=r"zk:1.*zk:2.*--state"):
        StateFolder(tmp_path / "s").check(OTHER)


def test_the_state_goes_on_and_the_memory_only_with_its_strategy(tmp_path: Path) -> None:
    folder = StateFolder(tmp_path)
    kept = Kept(score=Score(ours=Side(moves=3)), memory=MemoryDocument(rounds=2), strategy="X", places={"x": "b:1"})
    folder.keep(kept)
    assert folder.kept("X") == kept
    assert folder.kept("Y") == msgspec.structs.replace(kept, memory=MemoryDocument())
    (tmp_path / "state.json").write_text("{")
    with pytest.raises(StateError, match=r"state\.json is damaged"):
        folder.kept("X")


@pytest.mark.parametrize(
    "content", [b'{"strategy": "\xff"}', b'{"other": ' + b"[" * 100_000], ids=["not UTF-8", "too deep"]
)
def test_damage_of_each_kind_is_told(tmp_path: Path, content: bytes) -> None:
    for name in ("state.json", "proposal.json", "moves.journal"):
        (tmp_path / name).write_bytes(content + b"\n")
    folder = StateFolder(tmp_path)
    with pytest.raises(StateError, match=r"state\.json is damaged"):
        folder.kept("X")
    with pytest.raises(StateError, match=r"proposal\.json is damaged"):
        waiting(tmp_path, 10)
    with pytest.raises(JournalError, match=r"moves\.journal is not a journal"):
        folder.read_moves()


def test_a_pipe_in_the_place_of_a_file_keeps_nobody_waiting(tmp_path: Path) -> None:
    for name in ("state.json", "proposal.json", "moves.journal"):
        os.mkfifo(tmp_path / name)
    folder = StateFolder(tmp_path)
    with pytest.raises(StateError, match="not a regular file"):
        folder.kept("X")
    with pytest.raises(StateError, match="not a regular file"):
        waiting(tmp_path, 10)
    with pytest.raises(JournalError, match="not a regular file"):
        folder.read_moves()
    with pytest.raises(JournalError, match="not a regular file"), folder.journal.held():
        pass


def test_what_is_to_be_put_back_stays_until_it_was(tmp_path: Path) -> None:
    folder, taken_over = StateFolder(tmp_path), TakenOver(at=1, before=BEFORE)
    assert folder.taken_over() is None
    folder.remember(taken_over)
    assert StateFolder(tmp_path).taken_over() == taken_over
    folder.remember(None)
    folder.remember(None)
    assert folder.taken_over() is None


def test_records_of_rounds_are_rotated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_folder, "MAX_ROUNDS_BYTES", 10)
    for _ in range(2):
        StateFolder(tmp_path).note_round(MOVE)
    assert [len((tmp_path / name).read_text().splitlines()) for name in ("rounds.jsonl", "rounds.jsonl.1")] == [1, 1]


def test_an_answer_counts_for_the_moves_that_were_shown(tmp_path: Path) -> None:
    propose(tmp_path, PROPOSAL)
    assert waiting(tmp_path, 19) == PROPOSAL
    given = Answer(proposal=PROPOSAL.name, is_approved=True, by="me", at=11)
    answer(tmp_path, given)
    assert answer_to(tmp_path, PROPOSAL) == given
    with pytest.raises(ApprovalError, match="answered already"):
        waiting(tmp_path, 19)
    other = Proposal(at=10, until=20, moves=(msgspec.structs.replace(MOVE, destination="c:1"),))
    assert answer_to(tmp_path, other) is None
    propose(tmp_path, other)
    assert answer_to(tmp_path, PROPOSAL) is None, "an old answer is dropped with its proposal"


def test_nothing_waits_before_a_round_after_its_time_and_once_withdrawn(tmp_path: Path) -> None:
    with pytest.raises(ApprovalError, match="no round waits"):
        waiting(tmp_path, 1)
    propose(tmp_path, PROPOSAL)
    with pytest.raises(ApprovalError, match="its time has passed"):
        waiting(tmp_path, 20)
    withdraw(tmp_path)
    withdraw(tmp_path)
    with pytest.raises(ApprovalError, match="no round waits"):
        waiting(tmp_path, 1)


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff", b'{"holder": 3}', b"x" * 100_000])
def test_a_message_that_is_no_note_is_none(content: bytes) -> None:
    assert read_note(content) is None


def test_a_note_passes_what_is_to_be_put_back() -> None:
    note = Note(holder="h:1", taken_over=TakenOver(at=1, before=BEFORE))
    assert read_note(msgspec.json.encode(note)) == note
