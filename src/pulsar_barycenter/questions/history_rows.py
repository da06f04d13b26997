"""Prints the rows of a result as a table, JSON or CSV, and a series of values as bars."""

import csv
import io
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias

import click
import msgspec
import pyarrow as pa

from pulsar_barycenter.load.reasons import format_figure
from pulsar_barycenter.pipeline.tables.schemas import ENDED_MOVED
from pulsar_barycenter.terminal.tables import Column, Kind, output_width, print_table

Rows: TypeAlias = pa.Table

_MAX_ROWS: Final = 200
_BARS: Final = "▁▂▃▄▅▆▇█"
_MAX_BARS: Final = 60
PLAIN_WIDTH: Final = 240

_UNLOADED: Final = "unloaded"

_OFTEN_EMPTY: Final = ("principal", "request")
"""Columns that a table leaves out if no row has a value in them."""

_UNITS: Final = {
    "msg_rate": "msg/s",
    "msg_rate_max": "msg/s",
    "msg_throughput": "bytes/s",
    "msg_throughput_max": "bytes/s",
    "share": "%",
    "covered": "%",
    "usage_mean": "%",
    "usage_max": "%",
    "usage_deviation": "%",
}


def print_rows(rows: pa.Table, form: str, *, kind: str = "") -> None:
    """Print rows in the form `form`: "table"; "csv"; or "json", an object on each line, in which the field `kind` has
    the value `kind` unless that is blank.
    """
    if form == "json":
        extra = {"kind": kind} if kind else {}
        for row in rows.to_pylist():
            click.echo(msgspec.json.encode({**extra, **row}, enc_hook=str).decode())
    elif form == "csv":
        _print_csv(rows)
    else:
        _print_as_table(rows)


def _print_csv(rows: pa.Table) -> None:
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(rows.column_names)
    for row in rows.to_pylist():
        writer.writerow([value.isoformat() if isinstance(value, datetime) else value for value in row.values()])
    click.echo(out.getvalue(), nl=False)


def _print_as_table(rows: pa.Table) -> None:
    empty = [name for name in _OFTEN_EMPTY if name in rows.column_names and rows.column(name).null_count == len(rows)]
    rows = rows.drop_columns(empty)
    columns = [Column(field.name, _kind(field)) for field in rows.schema]
    shown = [[_cell(name, value) for name, value in row.items()] for row in rows.slice(0, _MAX_ROWS).to_pylist()]
    print_table(columns, shown, plain_width=PLAIN_WIDTH)
    if len(rows) > _MAX_ROWS:
        click.echo(f"… and {len(rows) - _MAX_ROWS:,} more rows; --format csv or json prints all rows")


def _kind(field: pa.Field) -> Kind:
    if pa.types.is_integer(field.type) or pa.types.is_floating(field.type) or pa.types.is_decimal(field.type):
        return Kind.FIGURE
    if pa.types.is_temporal(field.type):
        return Kind.TIME
    return Kind.SENTENCE if field.name == "sentence" else Kind.NAME


def _cell(name: str, value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")
    if isinstance(value, bool | str):
        return str(value)
    if isinstance(value, float):
        return format_figure(value, _UNITS[name]) if name in _UNITS else f"{value:,.4g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def one_owner_at_a_time(rows: pa.Table, *, is_to_the_end: bool) -> pa.Table:
    """Return the owners of a bundle over time, oldest first, changed so that their intervals do not overlap: an
    interval ends when the next one begins, or earlier.

    The times come from load reports, which two brokers send at different times. If an interval ended as "moved", but
    the next owner is the same broker or there is no next owner, the result has "unloaded" instead. Whether the last
    interval has a next owner is only known if the period reaches the end of the recording (`is_to_the_end`); otherwise
    it stays "moved".

    Example: broker a owns the bundle from 16:16:51 to 16:17:06, broker b from 16:17:02 on. In the result a's interval
    ends at 16:17:02.
    """
    found = rows.to_pylist()
    for owned, after in zip(found, [*found[1:], None], strict=False):
        if after is not None:
            begins = after["owned_from"]
            owned["owned_to"] = begins if owned["owned_to"] is None else min(owned["owned_to"], begins)
        is_elsewhere = not is_to_the_end if after is None else after["broker"] != owned["broker"]
        if owned["ended"] == ENDED_MOVED and not is_elsewhere:
            owned["ended"] = _UNLOADED
    return pa.Table.from_pylist(found, schema=rows.schema)


def trend(title: str, rows: pa.Table, kind: str) -> str:
    """Return a line with the title, and after it bars that show a value of `rows` over time: the load if `kind` is
    "load", the imbalance if it is "balance". For any other kind, or fewer than two values, return only the title.
    """
    column = {"load": "msg_rate", "balance": "msg_rate_ratio"}.get(kind)
    values = [value for value in rows.column(column).to_pylist() if value is not None] if column else []
    room = min(_MAX_BARS, output_width(PLAIN_WIDTH) - len(title) - 2)
    return f"{title}  {_bars(values, room)}" if len(values) > 1 and room > 0 else title


def _bars(values: Sequence[float], width: int) -> str:
    """Return at most `width` bars; if there are more values, each bar represents several consecutive ones and shows the
    greatest of them.
    """
    size = -(-len(values) // width)
    shown = [max(values[i : i + size]) for i in range(0, len(values), size)]
    most = max(shown)
    return "".join(_BARS[int(value / most * (len(_BARS) - 1)) if most > 0 else 0] for value in shown)
