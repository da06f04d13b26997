"""Commands with a folder of the wrong kind, or without permission to read it: a message, and no effect."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pulsar_barycenter.cli.main import main
from support.data_of_before import copied

QUESTIONS = [
    ["history", "top"],
    ["history", "brokers"],
    ["history", "sql", "select 1"],
    ["history", "bundle", "t/n/0x00000000_0xffffffff"],
    ["pipeline", "status"],
    ["pipeline", "refold"],
]
QUESTIONS_OF_TABLES = [words for words in QUESTIONS if words[1] not in ("sql", "refold")]
"""Those that need no Spark."""
NOBODY = 65_534


def run(*words: str | Path) -> Result:
    result = CliRunner().invoke(main, [str(word) for word in words])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert "Traceback" not in result.output
    return result


@pytest.fixture
def strangers(tmp_path: Path) -> Path:
    """A folder with files of another program."""
    folder = tmp_path / "home"
    (folder / "project").mkdir(parents=True)
    (folder / "project" / "package.json").write_text('{"name": "secret"}')
    (folder / "notes").write_text("secret")
    return folder


@pytest.mark.parametrize("words", [*QUESTIONS, ["pipeline", "run", "--once"]], ids=" ".join)
def test_a_folder_of_something_else_is_refused_with_what_was_expected(strangers: Path, words: list[str]) -> None:
    before = sorted(strangers.rglob("*"))
    result = run(*words, "--data", strangers)
    assert result.exit_code == 1
    assert f"{strangers} is not a data folder: it must contain load-reports/" in result.stderr
    assert sorted(strangers.rglob("*")) == before


def test_the_folder_above_a_data_folder_is_told_from_it(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "history" / "tables").mkdir(parents=True)
    result = run("advise", "--input", tmp_path)
    assert result.exit_code == 1
    assert f"or tables/, which the pipeline writes; did you mean {tmp_path / 'history'}?" in result.stderr
    assert "did you mean" not in run("advise", "--input", tmp_path / "history").stderr


@pytest.mark.parametrize("words", [*QUESTIONS, ["pipeline", "run", "--once"]], ids=" ".join)
def test_a_folder_that_is_not_there_is_not_made(tmp_path: Path, words: list[str]) -> None:
    result = run(*words, "--data", tmp_path / "typo")
    assert result.exit_code in (1, 2)
    assert "there is no folder" in result.stderr.replace("\n", " ")
    assert not (tmp_path / "typo").exists()


def test_the_pipeline_is_not_run_on_an_empty_folder(tmp_path: Path) -> None:
    result = run("pipeline", "run", "--once", "--data", tmp_path)
    assert (result.exit_code, list(tmp_path.iterdir())) == (1, [])
    assert "is not a data folder: it must contain load-reports/" in result.stderr


@pytest.mark.parametrize("file", ["conf/broker-0.conf", "ledgers/identity"])
def test_a_data_folder_without_tables_is_named_as_one(tmp_path: Path, file: str) -> None:
    """Brokers without a pipeline write no load reports."""
    (tmp_path / file).parent.mkdir()
    (tmp_path / file).write_text("")
    result = run("decide", "--snapshot", tmp_path)
    assert result.exit_code == 1
    told = result.stderr.replace("\n", " ")
    assert f"{tmp_path}: the data folder has no tables and no load reports: no pipeline has run on it" in told
    assert "from the running cluster with --url" in told


def test_history_without_tables_prints_no_caption(tmp_path: Path) -> None:
    (tmp_path / "load-reports").mkdir()
    result = run("history", "top", "--data", tmp_path)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "has no tables" in result.stderr


def test_a_snapshot_is_not_looked_for_in_strange_folders(strangers: Path) -> None:
    """No file is read of a folder that cannot be one of load reports."""
    (strangers / "keys.json").write_text('{"secret": 1}')
    result = run("decide", "--snapshot", strangers)
    assert result.exit_code == 1
    assert (
        f"{strangers}: the folder is neither a folder of load reports nor a data folder: it contains project/"
        in result.stderr
    )
    assert "secret" not in result.stderr


@pytest.fixture(params=["data", "data/tables", "."])
def without_rights(request: pytest.FixtureRequest) -> Iterator[Path]:
    """A data folder of which this process may not read a part, or not even what is above; also if it is root."""
    with tempfile.TemporaryDirectory() as above:
        data = copied(Path(above) / "data").data
        for words in QUESTIONS_OF_TABLES:
            run(*words, "--data", data)  # all modules that this takes are loaded now
        for folder in (Path(above), *data.rglob("*")):
            folder.chmod(0o755)
        (Path(above) / request.param).chmod(0)
        user = os.geteuid()
        if user == 0:
            os.seteuid(NOBODY)
        try:
            yield data
        finally:
            os.seteuid(user)
            (Path(above) / request.param).chmod(0o700)


@pytest.mark.parametrize("words", QUESTIONS_OF_TABLES, ids=" ".join)
def test_what_may_not_be_read_is_named_in_a_sentence(without_rights: Path, words: list[str]) -> None:
    if words == ["pipeline", "status"] and os.access(without_rights / "pipeline", os.R_OK, effective_ids=True):
        return  # it reads no tables
    result = run(*words, "--data", without_rights)
    assert result.exit_code in (1, 2)
    assert "Permission denied" in result.stderr.replace("\n", " ").replace("│", " ")
    assert str(without_rights) in result.stderr


GENERATE = ["generate-load", "--brokers", "1", "--bundles", "4", "--duration", "2m", "--interval", "60s"]


def test_a_second_history_is_not_mixed_with_the_first(tmp_path: Path) -> None:
    """Unless that is asked for; nor is one written among files of something else."""
    out = tmp_path / "out"
    assert run(*GENERATE, "--out", out).exit_code == 0
    first = sorted(out.rglob("*.json"))
    assert first
    again = run(*GENERATE, "--out", out, "--seed", "2")
    assert again.exit_code == 1
    assert f"{out / 'load-reports'} already has a history" in again.stderr
    assert sorted(out.rglob("*.json")) == first
    assert run(*GENERATE, "--out", out, "--seed", "2", "--add").exit_code == 0
    assert [out, *out.rglob("*")] == [each for each in [out, *out.rglob("*")] if not each.stat().st_mode & 0o077]


def test_no_history_is_written_among_other_files(tmp_path: Path, strangers: Path) -> None:
    result = run(*GENERATE, "--out", strangers)
    assert result.exit_code == 1
    assert "is not a data folder" in result.stderr
    read = copied(tmp_path / "read").data
    assert "already has a history" in run(*GENERATE, "--out", read).stderr
