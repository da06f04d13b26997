"""Writes and prints the results of a grid: `results.json`, Parquet files, and a table."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pulsar_barycenter.lab.board import FIGURES, figure_text, heading, rows_of
from pulsar_barycenter.lab.running import RunFile
from pulsar_barycenter.replay.grid import Scenario
from pulsar_barycenter.replay.measures import Measures
from pulsar_barycenter.terminal.tables import Column, Kind, print_table
from pulsar_barycenter.whole_files.appearing import appearing, write_whole

RESULTS: Final = "results.json"
_WIDTH: Final = 160


class Result(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A run in `results.json`: its name, its scenario (strategy, settings, seed and period) and its measures."""

    name: str
    scenario: Scenario
    measures: Measures


def write_results(out: Path, runs: Sequence[RunFile]) -> None:
    """Write the results of all runs into the folder `out`, in the order of `runs`.

    `results.json` has the scenario and the measures of each run, `moves.parquet` and `splits.parquet` all decisions
    with their reasons, `series.parquet` how evenly the brokers were loaded at each step, `brokers.parquet` the usage of
    each broker at each step. The same runs give the same bytes of `results.json`.

    Raises:
        OSError: a file cannot be written.
    """
    results = [Result(name=run.scenario.name, scenario=run.scenario, measures=run.measures) for run in runs]
    write_whole(out / RESULTS, msgspec.json.format(msgspec.json.encode(results, order="sorted"), indent=1) + b"\n")
    _write_parquet(out / "moves.parquet", [moves_table(runs)], _MOVES)
    _write_parquet(out / "splits.parquet", [splits_table(runs)], _SPLITS)
    _write_parquet(out / "series.parquet", [series_table(runs)], _SERIES)
    _write_parquet(out / "brokers.parquet", map(usage_table, runs), _BROKERS)


def moves_table(runs: Iterable[RunFile]) -> pa.Table:
    """Return a table of all moves of bundles with their reasons, in the order of the runs."""
    rows = [{"run": run.scenario.name, **msgspec.structs.asdict(move)} for run in runs for move in run.moves]
    return pa.Table.from_pylist(rows, schema=_MOVES)


def splits_table(runs: Iterable[RunFile]) -> pa.Table:
    """Return a table of all splits of bundles with their reasons, in the order of the runs."""
    rows = [
        {"run": run.scenario.name, **msgspec.structs.asdict(split), "parts": list(split.parts)}
        for run in runs
        for split in run.splits
    ]
    return pa.Table.from_pylist(rows, schema=_SPLITS)


def series_table(runs: Iterable[RunFile]) -> pa.Table:
    """Return a table that says how evenly the brokers were loaded: a row for each step of each run, in the order of the
    runs.
    """
    series: dict[str, list[Any]] = {name: [] for name in _SERIES.names}
    for run in runs:
        series["run"] += [run.scenario.name] * len(run.series.at_ms)
        for name in _SERIES.names[1:]:
            series[name] += getattr(run.series, name)
    return pa.table(series, schema=_SERIES)


_TEXT: Final = pa.string()
_MOVES: Final = pa.schema(
    {
        "run": _TEXT,
        "at_ms": pa.int64(),
        "kind": _TEXT,
        "bundle": _TEXT,
        "source": _TEXT,
        "destination": _TEXT,
        "rate": pa.float64(),
        "topics": pa.int64(),
        "sessions": pa.int64(),
        "gap_ms": pa.int64(),
        "misplaced": pa.bool_(),
        "why": _TEXT,
    }
)
_SPLITS: Final = pa.schema(
    {"run": _TEXT, "at_ms": pa.int64(), "bundle": _TEXT, "broker": _TEXT, "parts": pa.list_(_TEXT), "why": _TEXT}
)
_SERIES: Final = pa.schema(
    {
        "run": _TEXT,
        "at_ms": pa.int64(),
        "usage_max": pa.float64(),
        "usage_mean": pa.float64(),
        "usage_min": pa.float64(),
        "floor": pa.float64(),
        "brokers": pa.int64(),
    }
)


_BROKERS: Final = pa.schema(
    {"run": _TEXT, "at_ms": pa.int64(), "broker": _TEXT, "usage": pa.float64(), "live": pa.bool_()}
)


def usage_table(run: RunFile) -> pa.Table:
    """Return the usage of each broker at each step, in the order of steps; null where the broker did not run."""
    usage = run.series.usages().ravel().round(4)
    steps, names = len(run.series.at_ms), run.series.names
    live = ~np.isnan(usage)
    columns = {
        "run": pa.repeat(run.scenario.name, len(usage)),
        "at_ms": np.repeat(np.array(run.series.at_ms, np.int64), len(names)),
        "broker": names * steps,
        "usage": pa.array(usage, mask=~live),
        "live": live,
    }
    return pa.table(columns, schema=_BROKERS)


def _write_parquet(path: Path, tables: Iterable[pa.Table], schema: pa.Schema) -> None:
    with appearing(path) as unfinished, pq.ParquetWriter(unfinished, schema, compression="zstd") as writer:
        for table in tables:
            writer.write_table(table)


def print_board(runs: Sequence[RunFile]) -> None:
    """Print the results table: a row for each combination of a strategy and its settings, with the medians of the
    measures over its runs, the row with the least regret first.
    """
    columns = [Column("strategy", Kind.SENTENCE), Column("runs", Kind.FIGURE)]
    columns += [Column(heading(figure), Kind.FIGURE) for figure in FIGURES]
    print_table(
        columns,
        [[row.title, str(len(row.runs)), *map(figure_text, row.figures)] for row in rows_of(runs)],
        plain_width=_WIDTH,
    )
