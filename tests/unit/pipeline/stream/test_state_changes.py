"""States that are changes of the ones before: what they add up to, which are kept, and what is said of damaged ones."""

import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from pulsar_barycenter.pipeline.folds.balance import BalanceMemory
from pulsar_barycenter.pipeline.folds.live_windows import no_bundles
from pulsar_barycenter.pipeline.folds.ownership import Holding, HoldingStep, OwnershipSteps
from pulsar_barycenter.pipeline.reports.acceptance import AcceptedReports
from pulsar_barycenter.pipeline.storage.files import LocalStorage
from pulsar_barycenter.pipeline.storage.layout import PipelineLayout
from pulsar_barycenter.pipeline.stream.batch_result import RefoldDue
from pulsar_barycenter.pipeline.stream.live_state import LiveState
from pulsar_barycenter.pipeline.stream.state import (
    BatchMemory,
    DamagedStateError,
    MemoryChange,
    PriorState,
    StateChange,
    StateFolder,
)


@pytest.fixture
def layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PipelineLayout:
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    made = PipelineLayout.of(tmp_path)
    made.create()
    return made


def rows(**topics: int) -> pa.Table:
    """BUNDLE_STATE of some bundles, told apart by their topics."""
    schema = no_bundles().schema
    made = [{field.name: 0 for field in schema} | {"bundle": name, "topics": n} for name, n in topics.items()]
    return pa.Table.from_pylist(made, schema)


def change(follows: int, bundles: pa.Table, *, silent: tuple[str, ...] = (), at: int = 0) -> StateChange:
    steps = OwnershipSteps([HoldingStep("b", "i", at, at, is_new=False, gained=[f"t/n/{at}"])])
    memory = MemoryChange(
        follows=follows,
        reports=AcceptedReports(at),
        ownership_steps=steps,
        balance=BalanceMemory(next_start=at),
        decision_offsets={"d": at},
        refold=RefoldDue(1, at, 1, 0),
        silent=list(silent),
    )
    return StateChange(memory, bundles, None)


def whole(batch: int, bundles: pa.Table) -> PriorState:
    memory = BatchMemory(reports=AcceptedReports(batch))
    memory.ownership.holdings["b"] = Holding("i", 0, 0, {})
    return PriorState(batch, memory, bundles)


def test_a_state_is_the_whole_one_before_and_the_changes_since(layout: PipelineLayout) -> None:
    states = StateFolder(layout)
    states.write(3, whole(3, rows(b=1, d=1)))
    states.append(4, change(3, rows(a=2, d=2), at=4))
    states.append(7, change(4, rows(c=3), silent=("d",), at=7))
    states.append(8, change(7, rows(d=4), silent=("a",), at=8))
    for batch, expected, gained in (
        (4, "b1 d1", ""),
        (5, "a2 b1 d2", "4"),
        (8, "a2 b1 c3", "47"),
        (9, "b1 c3 d4", "478"),
    ):
        found = StateFolder(layout).before(batch)
        pairs = zip(*(found.bundles.column(name).to_pylist() for name in ("bundle", "topics")), strict=True)
        assert " ".join(f"{name}{topics}" for name, topics in pairs) == expected
        assert "".join(name[-1] for name in found.memory.ownership.holdings["b"].bundles) == gained
    assert (found.batch_id, found.changes, found.changed) == (8, 3, 6)
    memory = found.memory
    assert (memory.reports.as_of, memory.balance.next_start, memory.decision_offsets) == (8, 8, {"d": 8})
    assert memory.refold == RefoldDue(1, 8, 1, 0)
    progress = states.newest_progress()
    assert (progress.decision_offsets, progress.refold) == ({"d": 8}, memory.refold)


def test_what_the_newest_states_are_made_of_is_kept(layout: PipelineLayout) -> None:
    """Older ones go, a few at once, so that each that is left can be read whenever the process is killed."""
    states = StateFolder(layout)
    states.write(0, whole(0, rows(a=0)))
    for batch in range(1, 50):
        states.append(batch, change(batch - 1, rows(a=batch), at=batch))
    assert states.batch_ids() == list(range(50))
    states.write(50, whole(50, rows(a=50)))
    states.append(51, change(50, rows(a=51), at=51))
    assert states.batch_ids() == list(range(52)), "state 49 is one of the newest three"
    states.append(52, change(51, rows(a=52), at=52))
    left = states.batch_ids()
    assert left == [*range(len(left) - 3), 50, 51, 52]
    assert 0 < len(left) - 3 < 50
    for batch in left:
        assert StateFolder(layout).before(batch + 1).bundles.column("topics").to_pylist() == [batch]
    for batch in (53, 54, 55):
        states.append(batch, change(batch - 1, rows(a=batch), at=batch))
    assert states.batch_ids() == list(range(50, 56))


def test_a_batch_that_runs_again_replaces_its_state_of_either_form(layout: PipelineLayout) -> None:
    states = StateFolder(layout)
    states.write(0, whole(0, rows(a=0)))
    for _ in range(2):
        states.append(1, change(0, rows(a=1), at=1))
        assert StateFolder(layout).before(2).changes == 1
        states.write(1, whole(1, rows(a=9)))
        assert StateFolder(layout).before(2).changes == 0


def test_a_state_whose_write_failed_is_none(layout: PipelineLayout, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither is what it left taken for a part of the next attempt."""
    states = StateFolder(layout)
    states.write(0, whole(0, rows(a=0)))
    with monkeypatch.context() as patch:
        patch.setattr(PipelineLayout, "write", lambda *_: (_ for _ in ()).throw(OSError(28, "no space")))
        with pytest.raises(OSError, match="no space"):
            states.append(1, change(0, rows(a=1), at=1))
    assert states.batch_ids() == [0]
    states.write(1, whole(1, rows(a=9)))
    found = StateFolder(layout).before(2)
    assert (found.changes, found.bundles.column("topics").to_pylist()) == (0, [9])


def test_a_damaged_or_missing_part_is_named(layout: PipelineLayout) -> None:
    states = StateFolder(layout)
    states.write(0, whole(0, rows(a=0)))
    states.append(1, change(0, rows(a=1), at=1))
    states.append(2, change(1, rows(a=2), at=2))
    for file in ("000000000001/changes.parquet", "000000000001/memory.json", "000000000000/bundles.parquet"):
        path = layout.state / file
        content = path.read_bytes()
        path.write_bytes(content[: len(content) // 2])
        with pytest.raises(DamagedStateError, match=file.partition("/")[0]):
            StateFolder(layout).before(3)
        path.write_bytes(content)
    shutil.rmtree(layout.state / "000000000001")
    with pytest.raises(
        DamagedStateError, match="000000000002 is damaged: the state has only the changes since batch 1, whose state is"
    ):
        StateFolder(layout).before(3)


def test_changes_take_no_more_room_than_the_whole(layout: PipelineLayout) -> None:
    """A whole state follows when they would."""
    states = StateFolder(layout)
    names = [f"t/n/{number}" for number in range(20)]
    live = LiveState.of(PriorState(-1, BatchMemory(), rows(**dict.fromkeys(names, 1))))
    written = []
    for batch in range(30):
        follows, live.batch_id = live.batch_id, batch
        live.keep(states, change(follows, rows(**{names[0]: batch, names[1]: batch}), at=batch), whole_below=5)
        written.append((layout.state / f"{batch:012d}" / "bundles.parquet").exists())
    assert [batch for batch, is_whole in enumerate(written) if is_whole] == [0, 11, 22]
    live.batch_id = 30
    live.keep(states, change(29, rows(**{names[0]: 1})), whole_below=21)
    assert (layout.state / f"{30:012d}" / "bundles.parquet").exists(), "of few bundles each is whole"


@pytest.mark.parametrize("killed_at", [1, 2, 3, None])
def test_the_newest_state_is_made_whole_for_an_earlier_release(
    layout: PipelineLayout, monkeypatch: pytest.MonkeyPatch, killed_at: int | None
) -> None:
    """Killed meanwhile, it is what it was; it is followed by changes as before."""
    states = StateFolder(layout)
    states.write(0, whole(0, rows(a=0)))
    states.append(1, change(0, rows(b=1), at=1))
    expected = StateFolder(layout).before(2)
    calls = iter(range(1, 9))
    with monkeypatch.context() as patch:
        for name in ("new_file", "write", "delete"):
            done = getattr(LocalStorage, name)

            def killed(*args: Any, done: Any = done) -> Any:
                if next(calls) == killed_at:
                    raise KeyboardInterrupt
                return done(*args)

            patch.setattr(LocalStorage, name, killed)
        with suppress(KeyboardInterrupt):
            states.make_newest_whole()
    found = StateFolder(layout).before(2)
    assert (found.memory, found.bundles) == (expected.memory, expected.bundles)
    assert found.changes == (0 if killed_at in (3, None) else 1)
    if killed_at is None:
        assert {file.name for file in (layout.state / "000000000001").iterdir()} == {"bundles.parquet", "memory.json"}
        memory = (layout.state / "000000000001" / "memory.json").read_bytes()
        assert msgspec.json.decode(memory, type=BatchMemory) == expected.memory
    states = StateFolder(layout)
    states.append(2, change(1, rows(a=2), at=2))
    assert StateFolder(layout).before(3).bundles.column("topics").to_pylist() == [2, 1]
    states.make_newest_whole()
    states.make_newest_whole()
    assert StateFolder(layout).before(3).bundles.column("topics").to_pylist() == [2, 1]
