"""Splitting a bundle of a cluster that answers late, refuses, loses answers, or was split by somebody else."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from pulsar_barycenter.operations.executor import NotNowError, RefusedError
from pulsar_barycenter.operations.splitting import (
    PlannedSplit,
    SplitEntry,
    SplitState,
    carry_out_split,
    split_journal,
    splits_under_way,
)
from support.virtual_time import on_virtual_time

LEFT, RIGHT = "t/n/0x00000000_0x80000000", "t/n/0x80000000_0xffffffff"
WHOLE = "t/n/0x00000000_0xffffffff"


class Cluster:
    """Answers each request to split with the next of `answers`: "split", "none" (no hash), "lost", "busy", "refused".
    Shows a split only when it was asked for the bundles `late` more times."""

    def __init__(self, *answers: str, late: int = 0, bundles: Sequence[str] = (WHOLE,)) -> None:
        self.answers = list(answers)
        self.late = late
        self.asked = 0
        self.shown = frozenset(bundles)
        self.now = self.shown

    async def bundles_of(self, namespace: str) -> frozenset[str]:
        assert namespace == "t/n"
        if self.now != self.shown:
            self.late -= 1
            if self.late < 0:
                self.shown = self.now
        return self.shown

    async def split(self, bundle: str) -> None:
        self.asked += 1
        answer = self.answers.pop(0)
        if answer in ("split", "lost", "refused after"):
            self.now = frozenset((LEFT, RIGHT))
        if answer in ("lost", "busy"):
            raise NotNowError(answer)
        if answer in ("refused", "refused after"):
            raise RefusedError("412: not allowed")


def carried(cluster: Cluster, most: int = 8) -> tuple[list[SplitState], str]:
    told: list[tuple[SplitState, str]] = []

    async def scene() -> None:
        def tell(state: SplitState, detail: str) -> None:
            told.append((state, detail))

        assert await carry_out_split(WHOLE, cluster, max_bundles=most, timeout_s=60, tell=tell) is told[-1][0]

    on_virtual_time(lambda _world: scene())
    return [state for state, _ in told], told[-1][1]


@pytest.mark.parametrize(
    ("answers", "late", "requests"),
    [(("split",), 0, 1), (("split",), 3, 1), (("lost",), 0, 1), (("busy", "split"), 0, 2), (("refused after",), 0, 1)],
)
def test_a_bundle_is_split_whatever_becomes_of_the_answer(answers: Sequence[str], late: int, requests: int) -> None:
    cluster = Cluster(*answers, late=late)
    assert carried(cluster) == ([SplitState.BEGUN, SplitState.SPLIT], "its namespace has 2 bundles now")
    assert cluster.asked == requests


@pytest.mark.parametrize(
    ("answers", "said"),
    [(("none",), "found no hash"), (("refused",), "412: not allowed"), (("busy",) * 100, "not split after 60 s")],
)
def test_a_bundle_that_stays_whole_is_said(answers: Sequence[str], said: str) -> None:
    states, detail = carried(Cluster(*answers))
    assert states == [SplitState.BEGUN, SplitState.FAILED]
    assert said in detail


def test_nothing_is_asked_of_a_bundle_that_is_gone_or_of_a_full_namespace() -> None:
    gone, full = Cluster(bundles=(LEFT, RIGHT)), Cluster()
    assert carried(gone)[0] == [SplitState.GONE]
    states, detail = carried(full, most=1)
    assert states == [SplitState.FAILED]
    assert "loadBalancerNamespaceMaximumBundles is 1" in detail
    assert gone.asked + full.asked == 0


def test_the_journal_tells_what_a_killed_process_left(tmp_path: Path) -> None:
    journal = split_journal(tmp_path / "splits.journal")
    for at, bundle, state in ((1, LEFT, SplitState.BEGUN), (2, RIGHT, SplitState.BEGUN), (3, LEFT, SplitState.SPLIT)):
        journal.append(SplitEntry(at=at, by="x", bundle=bundle, broker="a:1", state=state, why="hot"))
    assert splits_under_way(journal.read()) == (PlannedSplit(bundle=RIGHT, broker="a:1", sentence="hot"),)
