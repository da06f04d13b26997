"""Spark starts, whatever became of the archive of its classes or is wrong with the options that make it quick."""

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from pulsar_barycenter.pipeline.running.archive_making import CannotMakeError, make_archive
from pulsar_barycenter.pipeline.spark.class_archive import ClassArchive, spark_home
from pulsar_barycenter.pipeline.spark.java_options import EXTRA_OPTIONS

pytestmark = [pytest.mark.pipeline, pytest.mark.drawn_tests(3)]

_SESSION = """
import logging, sys
from pulsar_barycenter.pipeline.spark.java_options import Compilers
from pulsar_barycenter.pipeline.spark.session import create_session
logging.basicConfig(format="%(message)s")
session = create_session("start", conf={"spark.driver.extraJavaOptions": "-Dof.the.user=kept"},
                         compilers=Compilers.FIRST, on_phase=lambda phase: print(phase, file=sys.stderr))
system = session._jvm.java.lang.System
print(session.range(3).count(), system.getProperty("of.the.user"))
session.stop()
"""


@pytest.fixture
def archive() -> ClassArchive:
    try:
        return make_archive(os.environ)
    except CannotMakeError as error:
        pytest.skip(str(error))


def java(archive: ClassArchive, *options: str) -> subprocess.CompletedProcess[str]:
    """Start Java with the class path that Spark's launcher gives it."""
    logging_jar = next((spark_home() / "jars").glob("slf4j-api-*.jar"))
    class_path = f"{spark_home()}/conf:{logging_jar}:{spark_home()}/jars/*"
    command = [str(archive.java.home / "bin" / "java"), "-XX:+UseSerialGC", *archive.options(), *options]
    return subprocess.run([*command, "-cp", class_path, "-version"], capture_output=True, text=True, check=False)


def with_other_bytes(file: Path) -> None:
    """In the middle, where the classes are; the header is whole."""
    with file.open("r+b") as content:
        content.seek(file.stat().st_size // 2)
        content.write(b"\xa5" * 4096)


def replaced(file: Path) -> None:
    file.write_bytes(b"not an archive\n" * 1000)


def copied(archive: ClassArchive, to: ClassArchive) -> None:
    shutil.copytree(archive.folder, to.folder)
    if archive.own_base is not None and to.own_base is not None:
        shutil.copy(archive.own_base, to.own_base)


def emptied(file: Path) -> None:
    os.truncate(file, 0)


def test_java_takes_the_archive(archive: ClassArchive) -> None:
    """Else all other tests of archives would show nothing."""
    assert java(archive, "-Xshare:on").returncode == 0


@pytest.mark.parametrize("damage", [with_other_bytes, replaced, emptied, Path.unlink])
def test_java_starts_without_a_word_beside_a_damaged_archive(
    archive: ClassArchive, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    """One that is cut short is not given to it."""
    copy = replace(archive, folder=tmp_path / "archive")
    copied(archive, copy)
    copy.file.chmod(0o600)
    damage(copy.file)
    ran = java(copy)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout == ""
    assert "version" in ran.stderr.splitlines()[0]
    assert java(copy, "-Xshare:on").returncode != 0


def session(environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if name not in ("PYSPARK_SUBMIT_ARGS", "SPARK_LOCAL_IP")}
    program = [sys.executable, "-c", _SESSION]
    return subprocess.run(program, env=kept | environment, capture_output=True, text=True, timeout=240, check=False)


@pytest.mark.full_form
def test_a_java_that_ends_with_the_quick_options_is_started_without_them_and_the_archive_is_set_aside(
    archive: ClassArchive, tmp_path: Path
) -> None:
    """Options of the user are kept either way, and nothing but the answer is on standard output."""
    tmp_path.chmod(0o700)
    cache = tmp_path / "cache"
    broken = tmp_path / "jvm" / "bin" / "java"
    broken.parent.mkdir(parents=True)
    real = shlex.quote(str(archive.java.runtime / "bin" / "java"))
    broken.write_text(
        f'#!/bin/sh\nfor each do case "$each" in -XX:SharedArchiveFile=*) echo broken >&2; exit 134;; esac; done\n'
        f'exec {real} "$@"\n'
    )
    broken.chmod(0o755)
    kept = cache / "java" / archive.folder.name  # of the same Java, whose home is asked of it
    copied(archive, replace(archive, folder=kept))
    ran = session({"JAVA_HOME": str(tmp_path / "jvm"), "BARYCENTER_CACHE": str(cache)})
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == "3 kept\n"
    assert "with the archive of its classes" in ran.stderr
    assert "Java ended when started with the options" in ran.stderr
    assert not kept.exists()
    assert kept.with_suffix(".failed").exists()


def test_an_option_of_the_user_that_no_java_takes_ends_the_start_with_what_java_says(archive: ClassArchive) -> None:
    ran = session({"PYSPARK_SUBMIT_ARGS": f"--conf {EXTRA_OPTIONS}=-Xss1k pyspark-shell"})
    assert ran.returncode != 0
    assert "stack size" in ran.stdout  # where Java itself says such things
    assert "3 kept" not in ran.stdout
    assert archive.is_there()


def test_options_for_all_javas_are_kept_beside_the_archive() -> None:
    """Of two collectors Java would take none."""
    ran = session({"JAVA_TOOL_OPTIONS": "-XX:+UseG1GC -Dmore=1"})
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == "3 kept\n"
    assert "Picked up JAVA_TOOL_OPTIONS: -XX:+UseG1GC -Dmore=1" in ran.stderr
    assert "Java ended" not in ran.stderr
