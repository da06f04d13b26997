"""Runs many independent tasks as one Spark job, and returns each result when its task ends.

Spark returns rows to the driver either all at the end of a job (`collect`), or with one job per partition, one after
the other (`toLocalIterator`). Only updates of accumulators reach the driver as each task ends. Spark counts the updates
of a task once, no matter how often it was tried. So results are sent as such updates, and the job has no rows.
"""

import re
import threading
import uuid
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Final, Generic, TypeVar

import pyarrow as pa
from pyspark import SparkFiles
from pyspark.accumulators import Accumulator, AccumulatorParam
from pyspark.sql import SparkSession

from pulsar_barycenter.pipeline.spark.session import SPARK_ERRORS

_Answer = TypeVar("_Answer")
_END_S: Final = 30.0
"""How long to wait for the end of a cancelled job; after that, the job is left alone."""
_FAILED: Final = re.compile(r"Task (\d+) in stage \d+\.0 failed")
_DIED: Final = re.compile(r"most recent failure: .*?\): (?:[\w.]+: )?(.+)")
_RAISED: Final = re.compile(r"^\w[\w.]*(?:Error|Exception): .+", re.MULTILINE)

SETTINGS: Final = {
    # Otherwise each stage would be a separate job.
    "spark.sql.adaptive.enabled": "false",
    # Answers are consumed as they arrive; Spark would stop a job because of their total size.
    "spark.driver.maxResultSize": "0",
}
"""The settings of a session for such jobs."""


class TaskError(Exception):
    """Spark abandoned a job because a task failed. `place` is the index, in `questions` of the function `answers`, of
    the question of the failed task; None if Spark does not say.
    """

    def __init__(self, place: int | None, reason: str) -> None:
        super().__init__(reason)
        self.place = place


class _Arriving(AccumulatorParam[list[_Answer]], Generic[_Answer]):
    """A Spark accumulator that sends answers from tasks to the driver as soon as a task ends: the task adds its answer,
    and the driver puts it into a queue.
    """

    def __init__(self, queue: "SimpleQueue[Any] | None" = None) -> None:
        self._queue = queue

    def __reduce__(self) -> tuple[Any, ...]:
        return _Arriving, ()

    def zero(self, value: list[_Answer]) -> list[_Answer]:
        return []

    def addInPlace(self, value1: list[_Answer], value2: list[_Answer]) -> list[_Answer]:  # noqa: N802 - PySpark's name
        if self._queue is None:
            return value1 + value2
        for answer in value2:
            self._queue.put(answer)
        return value1


def answers(
    session: SparkSession, work: Callable[[str], _Answer], questions: Sequence[str], *, what: str
) -> Generator[tuple[int, _Answer]]:
    """Call `work` with each of `questions` in a separate Spark task, all in one job. As soon as a task ends, yield the
    index of its question and the result of `work`.

    `work` is pickled, and the executors' Python must be able to import its module. Answers are not kept after they were
    yielded. `what` is the name of the job in Spark's web page. If the caller closes the iterator, the job is cancelled.
    The session must have been created with `SETTINGS`.

    Raises:
        TaskError: for one question, `work` raised an error or its process died, in all of Spark's attempts.
    """
    if not questions:
        return
    context, group = session.sparkContext, f"barycenter-{uuid.uuid4().hex}"
    arrived: SimpleQueue[Any] = SimpleQueue()
    found: Accumulator[list[tuple[int, _Answer]]] = context.accumulator([], _Arriving(arrived))
    places = pa.array(range(len(questions)), pa.int32())
    rows = session.createDataFrame(pa.table({"place": places, "question": pa.array(questions, pa.string())}))
    # no built-in function can run a simulator; the plan has only the questions, not the data behind them
    job = rows.repartitionById(len(questions), "place").mapInArrow(_asked(work, found), "place int")

    def run() -> None:
        try:
            context.setJobGroup(group, what)
            job.collect()
            arrived.put(None)
        except BaseException as error:  # noqa: BLE001 - the consumer of the queue raises it
            arrived.put(error)

    thread = threading.Thread(target=run, name=what, daemon=True)
    thread.start()
    try:
        while (each := arrived.get()) is not None:
            if isinstance(each, BaseException):
                raise _task_error(each) if isinstance(each, SPARK_ERRORS) else each
            yield each
    finally:
        with suppress(*SPARK_ERRORS, OSError):
            context.cancelJobGroup(group)
        thread.join(_END_S)


def _asked(
    work: Callable[[str], _Answer], found: Accumulator[list[tuple[int, _Answer]]]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def asked(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for row in batch.to_pylist():
                found.add([(row["place"], work(row["question"]))])
        yield from ()

    return asked


def _task_error(error: BaseException) -> TaskError:
    text = str(error)
    place, died, raised = _FAILED.search(text), _DIED.search(text), _RAISED.findall(text)
    # the last line of a Python traceback
    reason = died[1] if died else raised[-1] if raised else text.strip().partition("\n")[0]
    return TaskError(int(place[1]) if place else None, reason)


@dataclass(frozen=True)
class BroughtFile:
    """A file of the machine on which Spark's driver runs, which Spark also makes available on every machine that runs
    tasks.
    """

    name: str
    here: Path | None

    def path(self) -> Path:
        """Return the path of the file on the machine of the calling task."""
        return self.here or Path(SparkFiles.get(self.name))


def bring(session: SparkSession, file: Path) -> BroughtFile:
    """Make the file `file` of the driver available on every machine that runs tasks: Spark copies it to each executor
    before the executor's first task.
    """
    context = session.sparkContext
    if str(context.master).startswith("local"):
        return BroughtFile(file.name, file.absolute())
    context.addFile(str(file.absolute()))
    return BroughtFile(file.name, None)
