"""The options with which Java starts, in addition to those of the user."""

from pathlib import Path

import pytest

from pulsar_barycenter.pipeline.spark.java_options import (
    SMALL_WORK_BYTES,
    Compilers,
    given_options,
    own_options,
    settings_of_file,
)

_ARCHIVE = ("-XX:SharedArchiveFile=/a.jsa",)


def quick(given: str, compilers: Compilers = Compilers.FIRST) -> tuple[str, ...]:
    return own_options("file:///log", compilers, _ARCHIVE, given).quick


def test_the_log_settings_are_needed_and_all_else_makes_it_quick() -> None:
    options = own_options("file:///log", Compilers.FIRST, _ARCHIVE, "")
    assert options.needed == ("-Dlog4j2.configurationFile=file:///log",)
    assert options.quick == ("-XX:+UseSerialGC", *Compilers.FIRST.value, *_ARCHIVE)


def test_a_job_that_runs_for_hours_has_both_compilers() -> None:
    assert quick("", Compilers.BOTH) == ("-XX:+UseSerialGC", *_ARCHIVE)


@pytest.mark.parametrize("given", ["-XX:+UseG1GC", "-Xmx1g -XX:+UseZGC -Da=b", "-XX:+UseParallelGC"])
def test_the_collector_of_the_user_stays_the_only_one(given: str) -> None:
    """Java refuses two."""
    assert quick(given) == (*Compilers.FIRST.value, *_ARCHIVE)


@pytest.mark.parametrize(
    "given", ["-XX:TieredStopAtLevel=3", "-XX:-TieredCompilation", "-Xint", "-XX:ReservedCodeCacheSize=1g"]
)
def test_what_the_user_says_of_compilers_stands(given: str) -> None:
    assert quick(given) == ("-XX:+UseSerialGC", *_ARCHIVE)


@pytest.mark.parametrize(
    "given", ["-Xshare:off", "-XX:SharedArchiveFile=/mine.jsa", "-XX:ArchiveClassesAtExit=/mine.jsa"]
)
def test_what_the_user_says_of_class_data_stands(given: str) -> None:
    assert quick(given) == ("-XX:+UseSerialGC", *Compilers.FIRST.value)


def test_options_of_the_user_are_found_wherever_java_and_spark_look_for_them() -> None:
    environment = {
        "JAVA_TOOL_OPTIONS": "-Da",
        "JDK_JAVA_OPTIONS": "-Db",
        "_JAVA_OPTIONS": "-Dc",
        "PYSPARK_SUBMIT_ARGS": "-Dd",
    }
    settings = {
        "spark.driver.defaultJavaOptions": "-De",
        "spark.driver.extraJavaOptions": "-Df",
        "spark.app.name": "-Dg",
    }
    assert given_options(environment, settings).split() == ["-Da", "-Db", "-Dc", "-Dd", "-De", "-Df"]


def test_settings_of_the_file_are_read_as_spark_reads_them(tmp_path: Path) -> None:
    """Keys and values are apart by spaces, = or :; SPARK_CONF_DIR comes before SPARK_HOME."""
    text = "# a comment\n\nspark.a  1 2\nspark.b=-XX:+UseG1GC -Dx=y\n  spark.c: 3\nspark.nothing\n"
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark-defaults.conf").write_text(text)
    expected = {"spark.a": "1 2", "spark.b": "-XX:+UseG1GC -Dx=y", "spark.c": "3"}
    assert settings_of_file({"SPARK_HOME": str(tmp_path)}) == expected
    assert settings_of_file({"SPARK_HOME": "/nowhere", "SPARK_CONF_DIR": str(tmp_path / "conf")}) == expected
    assert settings_of_file({"SPARK_HOME": "/nowhere"}) == {}
    assert settings_of_file({}) == {}


def test_little_work_is_done_by_the_first_compiler() -> None:
    """How much there is may be unknown."""
    assert Compilers.for_bytes(0) == Compilers.for_bytes(SMALL_WORK_BYTES) == Compilers.FIRST
    assert Compilers.for_bytes(SMALL_WORK_BYTES + 1) == Compilers.for_bytes(None) == Compilers.BOTH
