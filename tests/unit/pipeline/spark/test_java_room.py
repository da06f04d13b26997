"""Only `pipeline.spark` touches a SparkContext or the Java process, so that all else runs on Spark Connect; and what
Spark computes is said in columns, not in text."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import pulsar_barycenter

SOURCE = Path(pulsar_barycenter.__file__).parent
ROOM = SOURCE / "pipeline" / "spark"

OF_JAVA = {"_jvm", "_jsc", "_gateway", "_jdf", "_jsparkSession", "_jconf", "_sc", "sparkContext", "rdd"}
"""Attributes of PySpark's objects that a session of Spark Connect lacks."""
NAMES = {"SparkContext", "SparkConf", "SparkFiles"}
OF_TEXT = {"expr", "selectExpr"}
TAKES_A_CONDITION = {"where", "filter"}


def uses(source: str) -> Iterator[tuple[int, str]]:
    """What a module uses of the Java process of a session: line and name."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and node.attr in OF_JAVA:
            yield node.lineno, node.attr
        elif isinstance(node, ast.Constant) and node.value in OF_JAVA:
            yield node.lineno, str(node.value)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("pyspark"):
            yield from ((node.lineno, alias.name) for alias in node.names if alias.name in NAMES)


def texts(source: str) -> Iterator[tuple[int, str]]:
    """Where a module says in text what Spark is to compute: line and what takes the text."""
    for node in ast.walk(ast.parse(source)):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        is_text = any(isinstance(argument, ast.JoinedStr) for argument in node.args)
        if node.func.attr in OF_TEXT or (node.func.attr in TAKES_A_CONDITION and is_text):
            yield node.lineno, node.func.attr


def found_in(files: list[Path], look: object) -> list[str]:
    assert callable(look)
    return [f"{file.relative_to(SOURCE)}:{line}: {name}" for file in files for line, name in look(file.read_text())]


def test_only_the_room_of_spark_uses_the_java_process_of_a_session() -> None:
    files = [file for file in sorted(SOURCE.rglob("*.py")) if ROOM not in file.parents]
    assert len(files) > 500
    assert found_in(files, uses) == []
    assert found_in(sorted(ROOM.glob("*.py")), uses), "nothing is looked for"


def test_what_spark_computes_is_said_in_columns() -> None:
    files = sorted((SOURCE / "pipeline").rglob("*.py"))
    assert len(files) > 50
    assert found_in(files, texts) == []


@pytest.mark.parametrize(
    ("source", "look", "name"),
    [
        ("session.sparkContext.master", uses, "sparkContext"),
        ("frame._jdf", uses, "_jdf"),
        ("getattr(session, '_jvm')", uses, "_jvm"),
        ("from pyspark import SparkContext", uses, "SparkContext"),
        ("F.expr('a')", texts, "expr"),
        ("rows.where(f'a > {b}')", texts, "where"),
    ],
)
def test_a_use_is_found(source: str, look: object, name: str) -> None:
    assert callable(look)
    assert list(look(source)) == [(1, name)]
