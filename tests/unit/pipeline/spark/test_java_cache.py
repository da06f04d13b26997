"""The folder whose content Java runs: whose it may be, and what happens if it cannot be trusted."""

import os
import stat
from pathlib import Path

import pytest

from pulsar_barycenter.pipeline.spark.java_cache import default_folder, open_cache, writable_by_others


@pytest.fixture
def private(tmp_path: Path) -> Path:
    tmp_path.chmod(0o700)
    return tmp_path


def test_the_folder_is_where_the_user_keeps_caches(private: Path) -> None:
    xdg, own = {"XDG_CACHE_HOME": "/x"}, {"BARYCENTER_CACHE": "/own"}
    assert default_folder(xdg) == Path("/x/barycenter/java")
    assert default_folder(xdg | own) == Path("/own/java")
    assert default_folder({}) == Path.home() / ".cache" / "barycenter" / "java"


def test_it_is_made_for_its_user_alone_and_an_open_one_is_closed(private: Path) -> None:
    folder = private / "java"
    folder.mkdir(mode=0o777)
    folder.chmod(0o777)
    cache = open_cache({"BARYCENTER_CACHE": str(private)})
    assert (cache.folder, cache.hindrance) == (folder, None)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_folder_above_that_others_may_write_to_makes_it_a_passing_one(private: Path) -> None:
    """They could put another folder in its place."""
    above = private / "open"
    above.mkdir()
    above.chmod(0o777)
    cache = open_cache({"BARYCENTER_CACHE": str(above)})
    assert cache.hindrance == f"other users may write to {above}"
    assert above not in cache.folder.parents
    assert stat.S_IMODE(cache.folder.stat().st_mode) == 0o700


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to another user")
def test_a_folder_of_another_user_is_not_used(private: Path) -> None:
    """As when a link in a folder that others may write to leads to theirs."""
    (private / "java").mkdir()
    os.chown(private / "java", 12345, 12345)
    cache = open_cache({"BARYCENTER_CACHE": str(private)})
    assert cache.hindrance == f"other users may write to {private / 'java'}"


def test_where_no_folder_can_be_made_a_passing_one_takes_its_place(private: Path) -> None:
    (private / "file").write_text("")
    cache = open_cache({"BARYCENTER_CACHE": str(private / "file")})
    assert cache.hindrance is not None
    assert cache.hindrance.startswith("the folder for files of Java cannot be used: ")
    assert cache.folder.is_dir()


@pytest.mark.parametrize(("mode", "is_safe"), [(0o600, True), (0o644, True), (0o664, False), (0o602, False)])
def test_a_file_is_safe_if_nobody_else_may_write_to_it(private: Path, mode: int, is_safe: bool) -> None:
    file = private / "file"
    file.write_text("")
    file.chmod(mode)
    assert (writable_by_others(file) is None) == is_safe


def test_a_sticky_folder_keeps_the_entries_of_one_user_from_others(private: Path) -> None:
    sticky = private / "sticky"
    (sticky / "mine").mkdir(parents=True)
    sticky.chmod(0o1777)
    assert writable_by_others(sticky / "mine") is None
    assert writable_by_others(sticky) == sticky
