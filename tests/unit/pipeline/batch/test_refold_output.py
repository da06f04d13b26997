"""The tables of a refold replace those of an earlier one all at once, wherever the process is killed."""

import os
import signal
import sys
from pathlib import Path

import pytest

from pulsar_barycenter.pipeline.batch.output import replaced_tables, table_path
from pulsar_barycenter.pipeline.storage.files import LocalStorage

AVERAGES = ("bundle_data", "broker_data")
_STEPS = {"os.rename", "os.symlink", "os.link", "os.mkdir", "os.remove", "os.rmdir", "shutil.copytree", "open"}
"""Events of Python's audit hooks in which a process changes, or may change, files."""


def write(root: Path, text: str, *, files: tuple[str, ...] = (), folders: tuple[str, ...] = ()) -> None:
    with replaced_tables(LocalStorage(root)) as new:
        for name in files:
            (root / new / table_path(name)).write_text(text)
        for name in folders:
            (root / new / table_path(name)).mkdir()
            for part in ("part-0", "part-1"):
                (root / new / table_path(name) / part).write_text(text)


def contents(root: Path) -> dict[str, set[str]]:
    """What a reader finds in each table: the texts of its files."""
    found = {}
    for path in root.glob("*.parquet") if root.is_dir() else ():
        if path.exists():  # a link to nothing is no table
            found[path.name] = {part.read_text() for part in path.iterdir()} if path.is_dir() else {path.read_text()}
    return found


def of(names: tuple[str, ...], text: str) -> dict[str, set[str]]:
    """The contents of an output whose tables `names` have this text."""
    return {table_path(name): {text} for name in names}


def killed_at(step: int, root: Path, text: str, *, files: tuple[str, ...], folders: tuple[str, ...] = ()) -> bool:
    """Write in a process that kills itself at its step number `step`; return whether it did so before its end."""
    child = os.fork()
    if not child:
        done = 0

        def count(event: str, args: tuple[object, ...]) -> None:
            nonlocal done
            if event in _STEPS and any(str(root) in str(arg) for arg in args):
                done += 1
                if done > step:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(count)
        write(root, text, files=files, folders=folders)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


def assert_every_kill_leaves_old_or_new(
    root: Path, before: dict[str, set[str]], *, files: tuple[str, ...], folders: tuple[str, ...] = ()
) -> None:
    after = before | {table_path(name): {"new"} for name in (*files, *folders)}
    step, seen = 0, []
    while killed_at(step, root, "new", files=files, folders=folders):
        found = contents(root)
        assert found in (before, after), step
        seen.append(found == after)
        if found == after:  # the next step is tried over the old output again
            write(root, "old", files=tuple(name.removesuffix(".parquet") for name in before))
        assert contents(root) == before
        step += 1
    assert contents(root) == after
    assert any(seen), "no kill after the tables were replaced"
    assert not all(seen), "no kill before"
    assert step > 10
    assert [path.name for path in root.iterdir() if path.name.startswith(".refold-")] == [
        os.readlink(root / ".refold")
    ], "what was killed is cleared away"


def test_a_kill_at_any_step_leaves_the_old_tables_or_the_new_ones(tmp_path: Path) -> None:
    write(tmp_path, "old", files=AVERAGES)
    assert_every_kill_leaves_old_or_new(tmp_path, of(AVERAGES, "old"), files=AVERAGES)


def test_tables_of_other_names_stay(tmp_path: Path) -> None:
    """All tables were computed before, the averages alone are now."""
    write(tmp_path, "old", files=(*AVERAGES, "balance"))
    (tmp_path / "notes.txt").write_text("of the operator")
    before = of((*AVERAGES, "balance"), "old")
    assert_every_kill_leaves_old_or_new(tmp_path, before, files=AVERAGES)
    assert (tmp_path / "notes.txt").read_text() == "of the operator"


def test_an_output_without_links_is_replaced_as_a_whole(tmp_path: Path) -> None:
    """As versions before the links wrote it."""
    before = of(AVERAGES, "old")
    after = of(AVERAGES, "new")
    step, is_killed = 0, True
    while is_killed:
        root = tmp_path / f"{step}"
        root.mkdir()
        for name in AVERAGES:
            (root / table_path(name)).write_text("old")
        is_killed = killed_at(step, root, "new", files=AVERAGES)
        assert contents(root) in ((before, after) if is_killed else (after,))
        write(root, "newer", files=AVERAGES)
        assert contents(root) == of(AVERAGES, "newer")
        step += 1
    assert step > 15


def test_a_first_output_is_whole_or_absent(tmp_path: Path) -> None:
    step, is_killed = 0, True
    after = of((*AVERAGES, "balance"), "new")
    while is_killed:
        root = tmp_path / f"{step}"
        is_killed = killed_at(step, root, "new", files=AVERAGES, folders=("balance",))
        assert contents(root) in (({}, after) if is_killed else (after,))
        step += 1
    assert step > 10


def test_a_file_takes_the_place_of_a_folder_and_the_other_way_round(tmp_path: Path) -> None:
    """The tables of `--from-logs` are folders of files; earlier versions wrote them without links."""
    (tmp_path / table_path("bundle_data")).mkdir()
    (tmp_path / table_path("bundle_data") / "part-0").write_text("plain")
    write(tmp_path, "first", files=AVERAGES)
    write(tmp_path, "second", folders=AVERAGES)
    assert contents(tmp_path) == of(AVERAGES, "second")
    write(tmp_path, "third", files=AVERAGES)
    assert contents(tmp_path) == of(AVERAGES, "third")


def test_what_fails_changes_nothing(tmp_path: Path) -> None:
    write(tmp_path, "old", files=AVERAGES)

    def fail() -> None:
        with replaced_tables(LocalStorage(tmp_path)) as new:
            (tmp_path / new / table_path("bundle_data")).write_text("half")
            raise OSError("no room")

    with pytest.raises(OSError, match="no room"):
        fail()
    assert contents(tmp_path) == of(AVERAGES, "old")
