"""Our comparison of Avro schemas against Java's validator, which Pulsar calls, in the JVM that Spark runs on.

It differs on purpose in enums that lack symbols, and in defaults that are not valid for their type.
"""

from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pulsar_barycenter.broker.schemas.avro.identity import identity
from pulsar_barycenter.broker.schemas.avro.parsing import parse
from pulsar_barycenter.broker.schemas.avro.resolution import why_unreadable
from support.avro_schemas import pairs

pytestmark = pytest.mark.pipeline

STRICTER = ("and has no default", "its default is not valid for its type")
"""What the reasons say where we refuse and Java's validator may not."""

FAILURES = (Py4JJavaError, PySparkException)
"""What an exception of Java becomes; Spark turns some of them into its own."""


class Java:
    """Java's classes of Avro."""

    def __init__(self, spark: SparkSession) -> None:
        jvm: Any = spark.sparkContext._jvm
        self._avro = jvm.org.apache.avro
        self._list = jvm.java.util.Collections.singletonList
        self._validator = self._avro.SchemaValidatorBuilder().canReadStrategy().validateLatest()

    def parsed(self, text: str) -> Any:
        parser = self._avro.Schema.Parser()
        parser.setValidateDefaults(False)
        return parser.parse(text)

    def can_read(self, reader: Any, writer: Any) -> bool:
        try:
            self._validator.validate(reader, self._list(writer))
        except FAILURES:
            return False
        return True


def test_the_answers_are_those_of_java(spark: SparkSession) -> None:
    java = Java(spark)

    @settings(
        max_examples=100, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck), database=None
    )
    @given(pairs())
    def compare(pair: tuple[Any, Any]) -> None:
        writer, reader = (msgspec.json.encode(schema) for schema in pair)
        try:
            there = [java.parsed(text.decode()) for text in (reader, writer)]
        except FAILURES:  # a text as the default of a double is no number
            return
        reason = why_unreadable(parse(reader), parse(writer))
        if reason is None or not any(text in reason for text in STRICTER):
            assert java.can_read(*there) is (reason is None), reason
        assert there[0].equals(there[1]) is (identity(parse(reader)) == identity(parse(writer)))

    compare()
