"""A process with a Spark session that reaches a store, and answers one question per line.

It is a separate process because the classes of a file system must be present when Java starts, and the session of
the tests began without them.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from click.testing import CliRunner
from pyspark.sql import SparkSession

from pulsar_barycenter.cli.main import main
from pulsar_barycenter.pipeline.running.pipeline_job import JobSettings, PipelineJob
from pulsar_barycenter.pipeline.spark.addresses import open_storage
from pulsar_barycenter.pipeline.spark.session import create_session
from pulsar_barycenter.pipeline.storage.lock import exclusive
from pulsar_barycenter.pipeline.stream.state import StateFolder
from pulsar_barycenter.pipeline.tables.compaction import CompactionSettings, keep_house

WRITERS = 8

Conf = Mapping[str, str]


class StoreSession:
    """The side of the test."""

    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        self._process = process
        self._log = log

    def ask(self, question: str, *arguments: Any) -> Any:
        """Return the answer of the function `question` of this module; an error in it fails the test."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([question, *arguments]) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, f"no answer to {question}:\n{self._log.read_text(errors='replace')[-4000:]}"
        return json.loads(answer)


@contextmanager
def store_session(conf: Conf, environment: Mapping[str, str], log: Path) -> Iterator[StoreSession]:
    command = [sys.executable, __file__, json.dumps(dict(conf))]
    with (
        log.open("wb") as errors,
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment
        ) as process,
    ):
        try:
            yield StoreSession(process, log)
        finally:
            process.kill()


def files(session: SparkSession, conf: Conf, address: str) -> dict[str, Any]:
    """Run the pipeline's operations on files at `address`, an empty folder."""
    storage = open_storage(address, session)
    storage.write("a/b/file", b"first")
    storage.write("a/b/file", b"and over")
    told: dict[str, Any] = {
        "over": storage.read("a/b/file").decode(),
        "part": storage.read("a/b/file", offset=4, length=2).decode(),
        "behind the end": storage.read("a/b/file", offset=99).decode(),
        "entries": [(entry.name, entry.is_folder) for entry in (*storage.entries("a"), *storage.entries("a/b"))],
        "size": storage.entries("a/b")[0].size,
        "no folder": list(storage.entries("z")),
        "path": storage.path_of(storage.address("a/b/file")),
    }
    with storage.local("a/b/file") as file:
        told["local"] = file.read_text()
    with suppress(KeyError), storage.new_file("a/broken") as file:
        file.write_text("half")
        raise KeyError
    told["broken off"] = storage.exists("a/broken")
    try:
        storage.read("a/broken")
    except FileNotFoundError:
        told["missing"] = True
    with ThreadPoolExecutor(WRITERS) as writers:
        list(writers.map(lambda writer: storage.write("a/race", bytes([65 + writer]) * 10_000), range(WRITERS)))
    told["race"] = sorted({*map(chr, storage.read("a/race"))}), len(storage.read("a/race"))
    told["replaced while it is read"] = _read_while_replaced(storage)
    storage.delete("a")
    storage.delete("a")
    told["deleted"] = not storage.exists("a/b/file")
    return told


def _read_while_replaced(storage: Any) -> str:
    """Read a file that is replaced between the first two requests that reading it takes."""
    files = storage._files

    class Replacing:
        def __getattr__(self, name: str) -> Any:
            return getattr(files, name)

        def open(self, path: Any) -> Any:
            stream = files.open(path)
            storage._files = files
            storage.write("a/replaced", b"the second")
            return stream

    storage.write("a/replaced", b"the first")
    storage._files = Replacing()
    content: bytes = storage.read("a/replaced")
    return content.decode()


def fold(session: SparkSession, conf: Conf, address: str) -> int:
    """Fold the present reports, as a pipeline that runs once does; return the number of batches until now."""
    storage = open_storage(address, session)
    with exclusive(storage, clock_ms=_clock_ms):
        PipelineJob(session, storage, JobSettings(once=True), clock_ms=_clock_ms).run(threading.Event())
    return StateFolder(storage).batch_ids()[-1] + 1


def house(session: SparkSession, conf: Conf, address: str, newest_date: str, days: int | None, run: int) -> Any:
    """Compact all batches, and delete dates more than `days` before the newest; return the counts of both."""
    storage = open_storage(address, session)
    settings = CompactionSettings(run=run, grace_s=0.0, retention_days=days)
    last = StateFolder(storage).batch_ids()[-1]
    return asdict(
        keep_house(storage, completed_batch=last, newest_date=newest_date, now_s=time.time() + 60, settings=settings)
    )


def command(session: SparkSession, conf: Conf, *words: str) -> tuple[int, str]:
    """Run a command of the program that reads a data directory; return its exit code and output."""
    session.stop()  # it starts its own
    options = [word for key, value in conf.items() for word in ("--conf", f"{key}={value}")]
    answer = CliRunner().invoke(main, [*words, *options])
    return answer.exit_code, answer.output


def _clock_ms() -> int:
    return time.time_ns() // 1_000_000


_QUESTIONS: tuple[Callable[..., Any], ...] = (files, fold, house, command)


def _answer_all(conf: Conf) -> None:
    questions = {question.__name__: question for question in _QUESTIONS}
    answers = sys.stdout
    sys.stdout = sys.stderr
    for line in sys.stdin:
        name, *arguments = json.loads(line)
        session = create_session("store", conf=conf)
        answers.write(json.dumps(questions[name](session, conf, *arguments)) + "\n")
        answers.flush()


if __name__ == "__main__":
    _answer_all(json.loads(sys.argv[1]))
