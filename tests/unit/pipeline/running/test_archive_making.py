"""Making the archive of Spark's classes, with Java replaced: one at a time, completely or not at all."""

import shutil
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pulsar_barycenter.pipeline.running import archive_making
from pulsar_barycenter.pipeline.running.archive_making import CannotMakeError, make_archive
from pulsar_barycenter.pipeline.spark.class_archive import archives_in


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Of a user whose Java 17 is a script."""
    java = tmp_path / "jvm" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\necho 'openjdk version \"17.0.9\" 2026-01-01' >&2\n")
    java.chmod(0o755)
    tmp_path.chmod(0o700)
    return {"JAVA_HOME": str(tmp_path / "jvm"), "PATH": "/usr/bin:/bin", "BARYCENTER_CACHE": str(tmp_path / "cache")}


class Runs:
    """In the place of Java and the training: writes the file that is wanted, or fails."""

    def __init__(self) -> None:
        self.commands: list[list[str]] = []
        self.fails_at = ""
        self.at_once = threading.Lock()

    def __call__(self, command: list[str], environment: Mapping[str, str], result: Path) -> None:
        assert self.at_once.acquire(blocking=False), "two are made at once"
        try:
            self.commands.append(command)
            if self.fails_at and result.name.endswith(self.fails_at):
                raise CannotMakeError("Java says no")
            result.write_bytes(b"classes")
        finally:
            self.at_once.release()


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Runs:
    made = Runs()
    monkeypatch.setattr(archive_making, "_run", made)
    return made


def test_an_archive_is_made_once(environment: dict[str, str], runs: Runs) -> None:
    """That of Java's own classes first, which the other depends on; the training run receives its path."""
    archive = make_archive(environment)
    assert archive.is_there()
    assert make_archive(environment) == archive
    dump, training = runs.commands
    assert dump[1] == "-Xshare:dump"
    assert training[-2].startswith("-XX:ArchiveClassesAtExit=")
    assert training[-3] == f"-XX:SharedArchiveFile={archive.own_base}"
    assert sorted(each.name for each in archive.folder.iterdir()) == ["sizes", "spark.jsa"]
    assert [each.name for each in archive.folder.parent.iterdir() if each.name.startswith(".")] == []


def test_of_several_who_make_it_at_once_one_does(environment: dict[str, str], runs: Runs) -> None:
    """The others wait, and find it."""
    with ThreadPoolExecutor(4) as several:
        found = list(several.map(make_archive, [environment] * 4))
    assert len(set(found)) == 1
    assert len(runs.commands) == 2


@pytest.mark.parametrize("part", [".java.jsa", "spark.jsa"])
def test_what_cannot_be_made_leaves_nothing_but_a_note(environment: dict[str, str], runs: Runs, part: str) -> None:
    """The note keeps later starts from trying again; an explicit request tries, and removes the note."""
    runs.fails_at = part
    with pytest.raises(CannotMakeError, match="Java says no"):
        make_archive(environment)
    folder = Path(environment["BARYCENTER_CACHE"]) / "java"
    assert archives_in(folder) == []
    assert list(folder.glob(".making-*")) == []
    assert list(folder.glob("*.jsa")) == []
    assert len(list(folder.glob("classes-*.failed"))) == 1
    runs.fails_at = ""
    assert make_archive(environment).is_there()
    assert list(folder.glob("classes-*.failed")) == []


def test_what_a_killed_one_left_is_removed(environment: dict[str, str], runs: Runs) -> None:
    folder = Path(environment["BARYCENTER_CACHE"]) / "java"
    (folder / ".making-before" / "archive").mkdir(parents=True)
    assert make_archive(environment).is_there()
    assert not (folder / ".making-before").exists()


def test_one_that_another_user_could_have_written_is_made_anew(environment: dict[str, str], runs: Runs) -> None:
    archive = make_archive(environment)
    archive.file.chmod(0o666)
    archive.file.write_bytes(b"foreign")
    assert make_archive(environment) == archive
    assert archive.is_there()
    assert archive.file.read_bytes() == b"classes"


def test_without_room_on_the_disk_none_is_made(
    environment: dict[str, str], runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage("/")._replace(free=1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    with pytest.raises(CannotMakeError, match="less than 1 GiB is free"):
        make_archive(environment)
    assert runs.commands == []
