"""Load reports that brokers publish to a topic (`barycenterLoadReportTopicEnabled`), as the report log's lines.

messages = spark.read.format("pulsar").option("service.url", url).option("topic", LOAD_REPORT_TOPIC).load()
tables = fold_history(report_lines(messages), decisions)
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name PySpark users know it by

from barycenter.pipeline.batch.whole_history import JSON_OPTIONS
from barycenter.pipeline.tables.schemas import LOAD_REPORT_LINE

LOAD_REPORT_TOPIC: Final = "persistent://pulsar/system/load-reports"

_PARSING: Final = {name: JSON_OPTIONS[name] for name in ("columnNameOfCorruptRecord", "mode", "allowNonNumericNumbers")}


def report_lines(messages: DataFrame) -> DataFrame:
    """Parse the values of messages as the lines of the report log are; one that is no report is a corrupt line.

    Input: `value`, binary or string. Output: LOAD_REPORT_LINE, one row a message.
    """
    line = F.from_json(F.col("value").cast("string"), LOAD_REPORT_LINE, _PARSING)
    return messages.select(line.alias("line")).select("line.*")
