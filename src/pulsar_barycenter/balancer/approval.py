"""Passes a round to a person, and the answer back, by two files in the state folder.

The answer names the round by the hash of its moves, so nobody can approve moves that were not shown. Whoever may write
to the folder may approve.
"""

from pathlib import Path
from typing import Final

import msgspec

from pulsar_barycenter.balancer.state_folder import StateError, read_file, write_file
from pulsar_barycenter.operations.plan import PlannedMove, plan_of

PROPOSAL: Final = "proposal.json"
_APPROVAL: Final = "approval.json"


class Proposal(msgspec.Struct, frozen=True, kw_only=True):
    """A round of moves that waits for a person's approval. Times are epoch ms; from `until` on the proposal is no
    longer valid.
    """

    at: int
    until: int
    moves: tuple[PlannedMove, ...]
    why: str = ""
    throughputs: dict[str, float] = {}

    @property
    def name(self) -> str:
        """The name of the proposal: a hash of its moves."""
        return plan_of(self.moves).name


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """A person's answer to the proposal of this name; `at` is epoch ms."""

    proposal: str
    is_approved: bool
    by: str
    at: int
    why: str = ""


class ApprovalError(Exception):
    """No proposal waits for an answer; the text says why."""


def propose(folder: Path, proposal: Proposal) -> None:
    """Write a proposal to the state folder, where a person can read it, and delete an answer to an earlier proposal.

    Raises:
        OSError: the file cannot be written.
    """
    (folder / _APPROVAL).unlink(missing_ok=True)
    write_file(folder / PROPOSAL, proposal)


def withdraw(folder: Path) -> None:
    """Delete the proposal and its answer from the state folder. Idempotent."""
    (folder / PROPOSAL).unlink(missing_ok=True)
    (folder / _APPROVAL).unlink(missing_ok=True)


def waiting(folder: Path, now_ms: int) -> Proposal:
    """Return the proposal that waits for an answer.

    Raises:
        ApprovalError: there is no proposal, its time `until` has passed, or it was answered.
        StateError: the file cannot be read.
    """
    proposal = read_file(folder / PROPOSAL, Proposal)
    if proposal is None:
        raise ApprovalError(
            f"no round waits for approval in {folder}; `barycenter balance --mode advise` proposes rounds"
        )
    if now_ms >= proposal.until:
        raise ApprovalError(
            f"round {proposal.name} in {folder} cannot be answered any more, because its time has passed; "
            "wait for the next round"
        )
    if answer_to(folder, proposal) is not None:
        raise ApprovalError(
            f"round {proposal.name} in {folder} was answered already, and that answer counts; wait for the next round"
        )
    return proposal


def answer(folder: Path, given: Answer) -> None:
    """Write a person's answer to the state folder, where the balancer reads it.

    Raises:
        OSError: the file cannot be written.
    """
    write_file(folder / _APPROVAL, given)


def answer_to(folder: Path, proposal: Proposal) -> Answer | None:
    """Return the answer that a person gave to a proposal; None if there is no answer, it is to another proposal, or it
    cannot be read.
    """
    try:
        given = read_file(folder / _APPROVAL, Answer)
    except StateError:
        return None
    return given if given is not None and given.proposal == proposal.name else None
