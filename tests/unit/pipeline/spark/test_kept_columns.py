"""Columns are made once for each Java process, and again for the next."""

import pytest
from pyspark import SparkContext

from pulsar_barycenter.pipeline.spark.session import kept_columns


def test_columns_are_made_once_for_the_same_arguments_while_java_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []

    @kept_columns
    def columns(name: str, *, width: int = 0) -> list[object]:
        made.append((name, width))
        return [object()]

    first, second = object(), object()
    for java in (None, first, second):
        monkeypatch.setattr(SparkContext, "_gateway", java)
        made.clear()
        assert columns("a") is columns("a")
        assert columns("a") is not columns("b")
        assert columns("a", width=1) is columns("a", width=1)
        assert made == [("a", 0), ("b", 0), ("a", 1)]
    monkeypatch.setattr(SparkContext, "_gateway", first)
    columns("a")
    assert made[-1] == ("a", 0), "columns of a former Java process were kept"
    assert len(made) == 4


def test_columns_of_a_former_java_process_are_not_kept_by_a_call_that_ends_in_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[str] = []
    monkeypatch.setattr(SparkContext, "_gateway", object())

    @kept_columns
    def columns(name: str) -> list[object]:
        made.append(name)
        if made == ["a"]:  # as a thread whose call is under way when another one finds the next Java process
            monkeypatch.setattr(SparkContext, "_gateway", object())
            columns("b")
        return [object()]

    former = columns("a")
    assert columns("a") is not former
    assert made == ["a", "b", "a"]
