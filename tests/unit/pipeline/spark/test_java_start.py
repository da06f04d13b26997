"""When Java is started once more, with the starter replaced."""

import threading
from collections.abc import Mapping
from typing import Any

import pytest
from pyspark import SparkConf

from pulsar_barycenter.pipeline.spark import java_start
from pulsar_barycenter.pipeline.spark.java_options import JavaOptions
from pulsar_barycenter.pipeline.spark.java_start import JavaPlan, started_context

_ENVIRONMENT: Mapping[str, str] = {}


class Starts:
    """In the place of Java: ends at once as often as it is to."""

    def __init__(self) -> None:
        self.options: list[tuple[str, ...]] = []
        self.failures = 0

    def __call__(self, conf: SparkConf, options: tuple[str, ...], given: str) -> Any:
        self.options.append(options)
        if len(self.options) <= self.failures:
            raise java_start._JavaEndedError(OSError(f"ended {len(self.options)}"))
        return "started"


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch) -> Starts:
    made = Starts()
    monkeypatch.setattr(java_start, "_context", made)
    return made


def plan(*quick: str) -> JavaPlan:
    options = JavaOptions(needed=("-Dneeded",), quick=quick)
    return JavaPlan(options=options, given="", used=None, missing=None, told="", environment=_ENVIRONMENT)


def started(*quick: str, given_up: bool = False) -> Any:
    event = threading.Event()
    if given_up:
        event.set()
    return started_context(SparkConf(loadDefaults=False), plan(*quick), event)


def test_a_start_that_succeeds_is_the_only_one(starts: Starts) -> None:
    assert started("-Xquick") == "started"
    assert starts.options == [("-Dneeded", "-Xquick")]


def test_a_java_that_ends_is_started_once_more_without_the_quick_options(starts: Starts) -> None:
    starts.failures = 1
    assert started("-Xquick") == "started"
    assert starts.options == [("-Dneeded", "-Xquick"), ("-Dneeded",)]


def test_what_ends_it_the_second_time_is_the_error(starts: Starts) -> None:
    starts.failures = 2
    with pytest.raises(OSError, match="ended 2"):
        started("-Xquick")
    assert len(starts.options) == 2


def test_where_nothing_can_be_left_out_it_is_not_tried_again(starts: Starts) -> None:
    starts.failures = 1
    with pytest.raises(OSError, match="ended 1"):
        started()
    assert len(starts.options) == 1


def test_an_interrupted_start_is_not_tried_again(starts: Starts) -> None:
    """Its Java was ended together with this process; another one would be left behind."""
    starts.failures = 1
    with pytest.raises(OSError, match="ended 1"):
        started("-Xquick", given_up=True)
    assert len(starts.options) == 1
