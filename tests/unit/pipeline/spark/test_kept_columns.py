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
