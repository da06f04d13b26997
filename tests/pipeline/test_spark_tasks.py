"""Pieces of work as one Spark job, whose answers come back one by one."""

import os
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pulsar_barycenter.pipeline.spark.tasks import TaskError, answers, bring

pytestmark = pytest.mark.pipeline


def test_every_question_is_asked_once_in_a_task_of_its_own_of_one_job(spark: SparkSession) -> None:
    def work(question: str) -> tuple[str, int]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        return question.upper(), context.partitionId()

    questions = [f"q{number}" for number in range(7)]
    scheduler = spark.sparkContext._jsc.sc().dagScheduler()
    before = scheduler.numTotalJobs()
    found = dict(answers(spark, work, questions, what="seven"))
    assert found == {place: (question.upper(), place) for place, question in enumerate(questions)}
    assert scheduler.numTotalJobs() == before + 1


def test_an_answer_comes_when_its_task_ends_and_not_when_the_job_does(spark: SparkSession, tmp_path: Path) -> None:
    """The last question waits at a pipe that is written to upon the first answer."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    ours = os.open(pipe, os.O_RDWR)

    def work(question: str) -> str:
        import select

        if question == "first":
            return "at once"
        with pipe.open("rb+", buffering=0) as theirs:
            told, _, _ = select.select([theirs], [], [], 60)
        return "in time" if told else "too late"

    try:
        coming = answers(spark, work, ["first", "last"], what="two")
        assert next(coming) == (0, "at once")
        os.write(ours, b".")
        assert list(coming) == [(1, "in time")]
    finally:
        os.close(ours)


def test_large_answers_come_whole(spark: SparkSession) -> None:
    """Beyond what Spark sends with the word that a task has ended."""

    def work(question: str) -> bytes:
        return question.encode() * 3_000_000

    assert dict(answers(spark, work, ["a", "b"], what="large")) == {0: b"a" * 3_000_000, 1: b"b" * 3_000_000}


def test_what_work_raises_and_a_process_that_dies_are_told(spark: SparkSession) -> None:
    def work(question: str) -> str:
        if question == "dies":
            os._exit(3)
        if question == "raises":
            raise ValueError("of this question there is no answer")
        return question

    with pytest.raises(TaskError, match="ValueError: of this question there is no answer"):
        list(answers(spark, work, ["a", "raises"], what="raises"))
    with pytest.raises(TaskError, match="worker exited unexpectedly") as died:
        list(answers(spark, work, ["a", "b", "dies"], what="dies"))
    assert died.value.place == 2
    assert dict(answers(spark, work, ["a"], what="the session is of use")) == {0: "a"}
    assert not list(answers(spark, work, [], what="nothing"))


def test_who_asks_no_further_ends_the_job(spark: SparkSession, tmp_path: Path) -> None:
    """Each task leaves a file; those that had not begun leave none."""

    def work(question: str) -> None:
        (tmp_path / question).touch()

    coming = answers(spark, work, [f"{number}" for number in range(500)], what="many")
    next(coming)
    coming.close()
    done = len(list(tmp_path.iterdir()))
    assert 1 <= done < 500
    assert dict(answers(spark, lambda _: None, ["a"], what="one")) == {0: None}
    assert len(list(tmp_path.iterdir())) <= done + 2  # what was on its way


def test_a_file_is_where_tasks_find_it(spark: SparkSession, tmp_path: Path) -> None:
    file = tmp_path / "a file"
    file.write_text("content")
    brought = bring(spark, file)
    assert dict(answers(spark, lambda _: brought.path().read_text(), [""], what="file")) == {0: "content"}
