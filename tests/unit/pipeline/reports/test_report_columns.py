"""The order of the rows that a batch writes."""

import pyarrow as pa

from pulsar_barycenter.pipeline.reports.acceptance import ReportHeader, ReportKey
from pulsar_barycenter.pipeline.reports.columns import ReportColumns


def test_reports_are_written_in_the_order_of_their_times_however_spark_read_them() -> None:
    """Files in the order of time can be folded again without sorting, see `pipeline.batch.refold`."""
    columns = ReportColumns(pa.table({"name": ["noon", "morning", "evening", "morning, too"]}), (), ())
    times = {0: 12, 1: 8, 2: 20, 3: 8}
    headers = [ReportHeader(row, ReportKey(at, "broker", "incarnation", at), ()) for row, at in times.items()]
    chosen = columns.chosen(headers[::-1])
    assert chosen.column("name").to_pylist() == ["morning", "morning, too", "noon", "evening"]
    assert columns.chosen(headers[:2]).column("name").to_pylist() == ["morning", "noon"]
