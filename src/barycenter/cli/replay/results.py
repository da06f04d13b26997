"""What came out of a grid: `results.json`, Parquet, and a board."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from barycenter.cli.replay.running import RunFile, write_whole
from barycenter.cli.terminal import Column, Kind, print_table
from barycenter.replay.grid import Scenario
from barycenter.replay.measures import Measures

RESULTS: Final = "results.json"
_WIDTH: Final = 160


class Result(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """One run in `results.json`."""

    name: str
    scenario: Scenario
    measures: Measures


def write_results(out: Path, runs: Sequence[RunFile]) -> None:
    """Write what all runs came to, in the order of the grid.

    `results.json` has scenario and measures of each, `moves.parquet` and `splits.parquet` all decisions with their
    reasons, `series.parquet` the balance of each step. The same runs give the same bytes of `results.json`.

    Raises:
        OSError: a file cannot be written.
    """
    results = [Result(name=run.scenario.name, scenario=run.scenario, measures=run.measures) for run in runs]
    write_whole(out / RESULTS, msgspec.json.format(msgspec.json.encode(results, order="sorted"), indent=1) + b"\n")
    moves = [{"run": run.scenario.name, **msgspec.structs.asdict(move)} for run in runs for move in run.moves]
    splits = [
        {"run": run.scenario.name, **msgspec.structs.asdict(split), "parts": list(split.parts)}
        for run in runs
        for split in run.splits
    ]
    _write_parquet(out / "moves.parquet", moves, _MOVES)
    _write_parquet(out / "splits.parquet", splits, _SPLITS)
    series: dict[str, list[Any]] = defaultdict(list)
    for run in runs:
        series["run"] += [run.scenario.name] * len(run.series.at_ms)
        for name, values in msgspec.structs.asdict(run.series).items():
            series[name] += values
    _write_parquet(out / "series.parquet", pa.table(dict(series), schema=_SERIES).to_pylist(), _SERIES)


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


def _write_parquet(path: Path, rows: list[dict[str, Any]], schema: pa.Schema) -> None:
    unfinished = path.with_name(f".{path.name}")
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), unfinished, compression="zstd")
    unfinished.replace(path)


_BOARD: Final[tuple[tuple[str, Callable[[Measures], float]], ...]] = (
    ("regret %", lambda m: m.regret * 100),
    ("max / mean", lambda m: m.max_over_mean),
    ("spread %", lambda m: m.spread * 100),
    ("overloaded s", lambda m: m.overloaded_s),
    ("unloads", lambda m: m.unloads),
    ("splits", lambda m: m.splits),
    ("flaps", lambda m: m.flaps),
    ("wrong", lambda m: m.wrong_placements),
    ("sessions", lambda m: m.sessions_disturbed),
    ("without service, topic s", lambda m: m.unserved_topic_s),
)


def print_board(runs: Sequence[RunFile]) -> None:
    """Print a row for each strategy and setting, medians over seeds and periods, the least regret first."""
    groups: dict[str, list[Measures]] = defaultdict(list)
    for run in runs:
        groups[run.scenario.title].append(run.measures)
    rows = sorted(
        ([median(of(each) for each in found) for _, of in _BOARD], title, len(found)) for title, found in groups.items()
    )
    columns = [Column("strategy", Kind.SENTENCE), Column("runs", Kind.FIGURE)]
    columns += [Column(title, Kind.FIGURE) for title, _ in _BOARD]
    print_table(
        columns,
        [[title, str(count), *(f"{figure:.4g}" for figure in figures)] for figures, title, count in rows],
        plain_width=_WIDTH,
    )
