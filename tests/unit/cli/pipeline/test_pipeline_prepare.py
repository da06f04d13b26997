"""`barycenter pipeline prepare`: why there is no archive, and the space that a removal frees."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pulsar_barycenter.cli.main import main


def prepare(*options: str) -> Result:
    return CliRunner().invoke(main, ["pipeline", "prepare", *options])


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache of a user whose only Java is a script that reports version 25."""
    java = tmp_path / "jvm" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\necho 'openjdk version \"25.0.1\" 2026-01-01' >&2\n")
    java.chmod(0o755)
    tmp_path.chmod(0o700)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jvm"))
    monkeypatch.setenv("BARYCENTER_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "java"


def test_why_none_can_be_made_is_said(cache: Path) -> None:
    asked = prepare()
    assert asked.exit_code == 1
    why = "it is supported with Java 17 and 21, and this is Java 25"
    assert asked.stderr.splitlines()[-1] == f"barycenter: cannot create the archive of Spark's classes: {why}"
    assert asked.stdout == ""


def test_all_are_removed_and_what_that_gives_back_is_said(cache: Path) -> None:
    for name in ("classes-1", "classes-2"):
        (cache / name).mkdir(parents=True)
        (cache / name / "spark.jsa").write_bytes(b"x" * 1_500_000)
    asked = prepare("--remove")
    assert (asked.exit_code, asked.stdout) == (0, f"removed 3 MB from {cache}\n")
    assert list(cache.iterdir()) == []
    assert prepare("--remove").stdout == f"removed 0 MB from {cache}\n"
