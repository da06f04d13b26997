"""The contract of table formats: every engine reads each row of the completed batches once, while the pipeline writes
and compacts, and after a kill at any step of it."""

from __future__ import annotations

import datetime
import itertools
import threading
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pulsar_barycenter.pipeline.storage.files import LocalStorage
from pulsar_barycenter.pipeline.tables.compaction import CompactionSettings, keep_house
from pulsar_barycenter.pipeline.tables.files import Tables, live_files
from pulsar_barycenter.pipeline.tables.formats import TableFormatError, chosen_format, delete_logs, format_of, open_log
from pulsar_barycenter.pipeline.tables.schemas import TABLES
from pulsar_barycenter.pipeline.tables.table_log import TableFormat, log_folder
from support.data_of_before import copied
from support.killed_writer import KilledError, at_each_change
from support.table_engines import ENGINES, Engine, Rows, example_row

NAMES: Final = ("broker_data", "decisions")
DATES: Final = ("2026-01-01", "2026-01-02")
AT: Final = datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)
SETTINGS: Final = CompactionSettings(run=3, grace_s=100.0, retention_days=None)
EARLY_S, LATE_S = 0.0, 4e9
COLUMN: Final = {"broker_data": ("broker", "long_term_msg_rate_in"), "decisions": ("by", "number", "principal")}


class World:
    """A folder of tables, the process that writes it, and which batches are completed."""

    def __init__(self, root: Path, table_format: TableFormat) -> None:
        self.storage = LocalStorage(root)
        self.format = table_format
        self.completed: set[int] = set()
        self.under_way: set[int] = set()
        self.restart()

    def restart(self) -> None:
        """Start the process as the pipeline does: a batch is completed once its state is kept."""
        newest = max(self.completed, default=None)
        log = open_log(self.storage, self.format, clock_ms=lambda: 0)
        Tables(self.storage, log).clear_unfinished(newest)
        self.log = log
        self.tables = Tables(self.storage, log)
        self.under_way = set()

    def write(self, batch: int) -> None:
        self.begin(batch)
        self.completed.add(batch)  # its state is kept
        self.tables.commit(batch)
        self.under_way = set()

    def begin(self, batch: int) -> None:
        self.under_way = {batch}
        for name in NAMES:
            row = example_row(name, batch, AT)
            rows = pa.Table.from_pylist([row] * len(DATES), schema=TABLES[name].arrow_schema)
            self.tables.write(name, batch, rows, dates=DATES)

    def keep_house(self, now_s: float) -> None:
        keep_house(
            self.storage,
            completed_batch=max(self.completed, default=0) - 1,
            newest_date=DATES[1],
            now_s=now_s,
            settings=SETTINGS,
            table_log=self.log,
        )

    def read(self, name: str, engine: Engine) -> Rows:
        return engine(self.storage.root / "tables", name, COLUMN[name], self.format)

    def expected(self, name: str, batches: set[int]) -> Rows:
        rows = [tuple(example_row(name, batch, AT)[column] for column in COLUMN[name]) for batch in batches]
        return sorted(rows * len(DATES), key=repr)

    def check(self, engine: Engine) -> None:
        """Between two operations of the writer: all completed batches, with or without the one under way."""
        for name in NAMES:
            found = self.read(name, engine)
            if self.format is TableFormat.DELTA:
                before = self.completed - self.under_way
                assert found in [self.expected(name, batches) for batches in (before, before | self.under_way)]
            else:
                of_others = [row for row in found if row not in self.expected(name, self.under_way)]
                assert of_others == self.expected(name, self.completed - self.under_way)

    def check_at_rest(self, engine: Engine) -> None:
        for name in NAMES:
            assert self.read(name, engine) == self.expected(name, self.completed)


@pytest.fixture(params=list(TableFormat))
def table_format(request: pytest.FixtureRequest) -> TableFormat:
    return TableFormat(request.param)


@pytest.mark.drawn(4)
@pytest.mark.parametrize("engine", ENGINES)
def test_each_engine_reads_each_row_once_at_every_step(tmp_path: Path, table_format: TableFormat, engine: str) -> None:
    """Batches, compactions of both kinds, deletion of replaced files, a restart."""
    world = World(tmp_path, table_format)
    steps = itertools.count()

    def look() -> None:
        next(steps)
        world.check(ENGINES[engine])

    with at_each_change(look):
        for batch in range(5):
            world.write(batch)
            world.check_at_rest(ENGINES[engine])
        for now_s in (EARLY_S, LATE_S):
            world.keep_house(now_s)
            world.check_at_rest(ENGINES[engine])
        world.restart()
        world.check_at_rest(ENGINES[engine])
    assert next(steps) > 30


STEPS: Final = st.lists(st.sampled_from(["write", "compact", "delete", "restart", "again"]), min_size=2, max_size=7)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS, killed_at=st.integers(0, 30), killed_again_at=st.integers(0, 15))
def test_a_kill_at_any_step_leaves_each_row_once(
    tmp_path_factory: pytest.TempPathFactory,
    table_format: TableFormat,
    steps: list[str],
    killed_at: int,
    killed_again_at: int,
) -> None:
    """The process is killed at one of its operations, started again and killed at another; `again` runs the last batch
    once more, as Spark does when it was killed before it noted the batch."""
    world = World(tmp_path_factory.mktemp("tables"), table_format)
    left = [killed_at, killed_again_at]
    count = itertools.count()

    def kill() -> None:
        if left and next(count) == left[0]:
            left.pop(0)
            raise KilledError

    def carry_out(step: str) -> None:
        newest = max(world.completed, default=-1)
        if step == "write":
            world.write(newest + 1)
        elif step == "again" and newest >= 0:
            world.write(newest)
        elif step in ("compact", "delete"):
            world.keep_house(EARLY_S if step == "compact" else LATE_S)
        else:
            world.restart()

    engine = ENGINES["pyarrow"]
    world.write(0)
    with at_each_change(kill):
        for step in steps:
            try:
                carry_out(step)
            except KilledError:
                world.check(engine)
                try:
                    world.restart()
                except KilledError:
                    world.check(engine)
                    world.restart()
            world.check_at_rest(engine)
    world.restart()
    world.keep_house(EARLY_S)
    world.keep_house(LATE_S)
    for name in NAMES:
        assert {found(world.storage.root / "tables", name) for found in (_names_live, _names_there)} == {
            _names_live(world.storage.root / "tables", name)
        }
    for each in ENGINES.values():
        world.check_at_rest(each)


def _names_live(tables: Path, name: str) -> tuple[str, ...]:
    return tuple(sorted(str(file) for file in live_files(tables, name)))


def _names_there(tables: Path, name: str) -> tuple[str, ...]:
    return tuple(sorted(str(file) for file in (tables / name).glob("date=*/*.parquet")))


@pytest.mark.parametrize("batches", [0, 2])
def test_housekeeping_beside_a_batch_does_not_publish_it(tmp_path: Path, batches: int) -> None:
    """Other threads keep house; a batch counts once its state is kept, in a new folder like in an old one."""
    world = World(tmp_path, TableFormat.DELTA)
    for batch in range(batches):
        world.write(batch)
    world.begin(batches)
    housekeeper = threading.Thread(target=world.keep_house, args=(EARLY_S,))
    housekeeper.start()
    housekeeper.join()
    world.check_at_rest(ENGINES["polars"])
    world.write(batches)
    world.check_at_rest(ENGINES["polars"])


@pytest.mark.parametrize("engine", ["pyarrow", "polars"])
def test_a_date_leaves_the_table_before_its_files_are_deleted(
    tmp_path: Path, table_format: TableFormat, engine: str
) -> None:
    """Retention of one date: at every step an engine can read all files in its list."""
    world = World(tmp_path, table_format)
    for batch in range(2):
        world.write(batch)
    seen: list[int] = []
    kept = CompactionSettings(run=3, grace_s=100.0, retention_days=0)
    with at_each_change(lambda: seen.append(len(world.read("decisions", ENGINES[engine])))):
        keep_house(world.storage, completed_batch=0, newest_date=DATES[1], now_s=0, settings=kept, table_log=world.log)
    assert seen == sorted(seen, reverse=True)
    assert {*seen, 2} == {4, 2}
    assert len(world.read("decisions", ENGINES[engine])) == 2
    assert not list(tmp_path.glob(f"tables/*/date={DATES[0]}"))


def test_a_batch_is_an_application_transaction_and_a_version(tmp_path: Path) -> None:
    """What other engines travel in time by, as long as no file of a version is deleted."""
    world = World(tmp_path, TableFormat.DELTA)
    for batch in range(3):
        world.write(batch)
    table = DeltaTable(str(tmp_path / "tables" / "decisions"))
    assert table.transaction_version("barycenter") == 2
    newest = table.version()
    for batch in range(3):
        table.load_as_version(newest - 2 + batch)
        assert table.transaction_version("barycenter") == batch
        assert len(pa.table(table.to_pyarrow_table())) == len(DATES) * (batch + 1)


def test_a_folder_of_before_opens_as_delta_with_nulls_in_later_columns(tmp_path: Path) -> None:
    """The stored folder lacks three columns of decisions; adopting its files changes none of them."""
    layout = copied(tmp_path / "cluster")
    before = {file: file.read_bytes() for file in layout.tables.rglob("*.parquet")}
    log = open_log(layout, TableFormat.DELTA, clock_ms=lambda: 0)
    Tables(layout, log).clear_unfinished(2)
    assert {file: file.read_bytes() for file in layout.tables.rglob("*.parquet")} == before
    for name, table in TABLES.items():
        known = pq.read_schema(live_files(layout.tables, name)[0]).names
        for engine in ("polars", "pandas", "deltalake"):
            columns = [column for column in table.schema.names if column in known]
            rows = ENGINES[engine](layout.tables, name, columns, TableFormat.DELTA)
            plain = ENGINES[engine](layout.tables, name, columns, TableFormat.PARQUET)
            assert rows == plain
            assert rows
    later = ENGINES["polars"](layout.tables, "decisions", ("manager", "principal", "request"), TableFormat.DELTA)
    assert set(later) == {(None, None, None)}


def test_a_log_of_before_a_column_gets_the_column(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files with the column follow files without it; the log's schema grows at the start of the newer release."""
    full = TABLES["decisions"]
    world = World(tmp_path, TableFormat.DELTA)
    without = type(full.schema)([column for column in full.schema if column.name != "request"])
    with monkeypatch.context() as patch:
        patch.setitem(TABLES, "decisions", type(full)(without, full.time, full.key, full.about))
        for name in TABLES:
            world.storage.delete(log_folder(name))
        world.restart()
        world.write(0)
    assert "request" not in [field.name for field in DeltaTable(str(tmp_path / "tables" / "decisions")).schema().fields]
    world.restart()
    world.write(1)
    for engine in ("polars", "pandas", "deltalake"):
        rows = ENGINES[engine](tmp_path / "tables", "decisions", ("number", "request"), TableFormat.DELTA)
        assert rows == sorted([(0, None)] * 2 + [(1, "request 1")] * 2, key=repr)


def test_a_damaged_log_is_made_anew(tmp_path: Path) -> None:
    """A machine lost power while the log was written."""
    world = World(tmp_path, TableFormat.DELTA)
    for batch in range(2):
        world.write(batch)
    newest = max((tmp_path / log_folder("decisions")).glob("*.json"))
    newest.write_bytes(newest.read_bytes()[:20])
    world.restart()
    world.check_at_rest(ENGINES["polars"])


def test_a_folder_keeps_its_format(tmp_path: Path) -> None:
    """Another one is refused, with the command that converts; converting there and back changes no file."""
    storage = LocalStorage(tmp_path)
    assert chosen_format(storage, None) is TableFormat.PARQUET
    assert chosen_format(storage, TableFormat.DELTA) is TableFormat.DELTA
    world = World(tmp_path, TableFormat.PARQUET)
    world.write(0)
    with pytest.raises(TableFormatError, match=r"are parquet, not delta.*pipeline convert --data .* --to delta"):
        chosen_format(storage, TableFormat.DELTA)
    world.format = TableFormat.DELTA
    world.restart()
    world.check_at_rest(ENGINES["polars"])
    assert chosen_format(storage, None) is TableFormat.DELTA
    with pytest.raises(TableFormatError, match="are delta, not parquet"):
        chosen_format(storage, TableFormat.PARQUET)
    delete_logs(storage)
    assert format_of(storage) is TableFormat.PARQUET
    world.format = TableFormat.PARQUET
    world.check_at_rest(ENGINES["duckdb"])
