"""A damaged file of a table: every reader names it, says what is wrong and what to do, and none shows a traceback."""

import io
import pickle
import random
import shutil
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from pulsar_barycenter.cli.main import main
from pulsar_barycenter.lab.advising.reality import reality_of
from pulsar_barycenter.lab.inputs import InputSpec, read_source
from pulsar_barycenter.load.reports.load_over_time import LoadQuestion
from pulsar_barycenter.pipeline.history import History
from pulsar_barycenter.pipeline.load_over_time import read_load
from pulsar_barycenter.pipeline.local_sql import QueryError, run_local_sql
from pulsar_barycenter.pipeline.storage.layout import PipelineLayout
from pulsar_barycenter.pipeline.stream.state import DamagedStateError, StateFolder
from pulsar_barycenter.pipeline.tables.compaction import CompactionSettings, keep_house
from pulsar_barycenter.pipeline.tables.files import files_of_date, table_files
from pulsar_barycenter.pipeline.tables.reading import DamagedTableError, first_damaged, read_rows
from pulsar_barycenter.pipeline.tables.schemas import TABLES
from pulsar_barycenter.snapshots.snapshot_file import read_snapshot_file

RECORDED = Path(__file__).parents[3] / "data" / "pipeline" / "cluster"
BUNDLE = "public/default/0x00000000_0x55555555"
CHANGED_BYTES = 6
"""Places of a file at which a byte is changed, one at a time."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data folder of a cluster, with its tables written again by this version."""
    folder = tmp_path_factory.mktemp("whole")
    for part in ("tables", "pipeline/state"):
        shutil.copytree(RECORDED / part, folder / part)
    for path in folder.glob("tables/*/*/*.parquet"):
        pq.write_table(pq.ParquetFile(path).read(), path, compression="zstd", write_page_checksum=True)
    return folder


@pytest.fixture
def data(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "data"))


def file_of(data: Path, name: str) -> Path:
    return PipelineLayout.of(data).root / table_files(PipelineLayout.of(data), name)[-1].path


# ---- ways to damage a file ----


def cut_in_half(content: bytes) -> bytes:
    return content[: len(content) // 2]


def cut_footer(content: bytes) -> bytes:
    return content[:-9]


def empty(content: bytes) -> bytes:
    return b""


def zero_the_middle(content: bytes) -> bytes:
    third = len(content) // 3
    return content[:third] + bytes(third) + content[2 * third :]


def zero_the_pages(content: bytes) -> bytes:
    size = int.from_bytes(content[-8:-4], "little")
    return content[:4] + bytes(len(content) - size - 12) + content[-size - 8 :]


def write_text(content: bytes) -> bytes:
    return b"not a table\n" * 100


def claim_a_long_footer(content: bytes) -> bytes:
    return content[:-8] + (2**31 - 1).to_bytes(4, "little") + content[-4:]


def lose_the_columns(content: bytes) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table({"other": [1, 2, 3]}), file)
    return file.getvalue()


WAYS = (
    cut_in_half,
    cut_footer,
    empty,
    zero_the_middle,
    zero_the_pages,
    write_text,
    claim_a_long_footer,
    lose_the_columns,
)

# ---- readers ----


def history(data: Path) -> History:
    return History(PipelineLayout.of(data))


def loads(data: Path, name: str) -> None:
    """Ask as a dashboard does, which shows what is left, and a note."""
    bundle = BUNDLE if name == "bundle_samples" else ""
    found = read_load(PipelineLayout.of(data), LoadQuestion(0, 2_000_000_000_000, 60_000, bundle=bundle))
    if "cannot be read" in found.note:
        raise DamagedTableError(*found.note.split(" cannot be read: "), str(data))


READERS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "top": ("bundle_samples", lambda data: history(data).top_bundles(10)),
    "load of a bundle": ("bundle_samples", lambda data: history(data).bundle_load(BUNDLE)),
    "owners": ("ownership", lambda data: history(data).bundle_owners(BUNDLE)),
    "moves": ("ownership", lambda data: history(data).moves(10)),
    "flapping": ("ownership", lambda data: history(data).flapping(10, within=timedelta(days=1))),
    "decisions": ("decisions", lambda data: history(data).decisions(10)),
    "decisions about a bundle": ("decisions", lambda data: history(data).bundle_decisions(BUNDLE)),
    "brokers": ("broker_usage", lambda data: history(data).brokers_over(0.1)),
    "imbalance": ("balance", lambda data: history(data).imbalance()),
    "replay": ("bundle_samples", lambda data: read_source(InputSpec(paths=(str(data),)))),
    "replay, usage": ("broker_usage", lambda data: read_source(InputSpec(paths=(str(data),)))),
    "advise": ("ownership", lambda data: reality_of(InputSpec(paths=(str(data),)))),
    "advise, balance": ("balance", lambda data: reality_of(InputSpec(paths=(str(data),)))),
    "snapshot": ("bundle_samples", lambda data: read_snapshot_file(data / "tables")),
    "snapshot, windows": ("bundle_data", lambda data: read_snapshot_file(data / "tables")),
    "dashboard": ("load_reports", lambda data: loads(data, "load_reports")),
    "dashboard, a bundle": ("bundle_samples", lambda data: loads(data, "bundle_samples")),
    "dashboard, usage": ("broker_usage", lambda data: loads(data, "broker_usage")),
    **{
        f"sql, {name}": (name, lambda data, name=name: run_local_sql(PipelineLayout.of(data), f"from {name}"))  # type: ignore[misc]
        for name in TABLES
    },
}


def said_of_damage(reader: Callable[[Path], object], data: Path) -> str | None:
    """Return a reader's message about damage, None if it answers; anything else fails the test."""
    try:
        reader(data)
    except DamagedTableError as error:
        return str(error)
    return None


@pytest.mark.parametrize("reader", READERS)
def test_every_reader_reads_what_is_whole(data: Path, reader: str) -> None:
    assert said_of_damage(READERS[reader][1], data) is None


@pytest.mark.parametrize("reader", READERS)
def test_every_reader_names_a_damaged_file(data: Path, reader: str) -> None:
    name, read = READERS[reader]
    file = file_of(data, name)
    content = file.read_bytes()
    for way in WAYS:
        file.write_bytes(way(content))
        said = said_of_damage(read, data)
        assert said is not None, way
        assert file.name in said
        assert f"tables/{name}/" in said
        assert "barycenter pipeline refold" in said
        assert "\n" not in said
        assert len(said) < 1_500


@pytest.mark.parametrize("name", TABLES)
def test_a_changed_byte_is_found_or_changes_no_row(data: Path, name: str) -> None:
    """Pages have checksums. A byte of the footer may be unused, or change what the file claims."""
    layout = PipelineLayout.of(data)
    file = file_of(data, name)
    content = file.read_bytes()
    pages = len(content) - int.from_bytes(content[-8:-4], "little") - 8
    rows = pq.ParquetFile(file).read()
    chance = random.Random(name)
    for _ in range(CHANGED_BYTES):
        place = chance.randrange(4, len(content))
        changed = bytearray(content)
        changed[place] ^= chance.randrange(1, 256)
        file.write_bytes(changed)
        damage = first_damaged(layout, [name])
        if damage is not None:
            assert damage.file == str(file)
        elif place < pages:
            assert read_rows(layout, file.relative_to(data).as_posix(), name, rows.column_names).equals(
                rows.cast(pa.schema([field.with_nullable(True) for field in rows.schema]))
            )
        for reader, (table, read) in READERS.items():
            if table == name:
                with suppress(QueryError):  # DuckDB may take the row group for one of other columns
                    said = said_of_damage(read, data)
                    assert said is None or file.name in said, reader
    file.write_bytes(content)
    assert first_damaged(layout, TABLES) is None


COMMANDS = {
    "bundle_samples": [["history", "top"], ["history", "bundle", BUNDLE], ["replay", "--input"]],
    "ownership": [["history", "moves"], ["history", "flapping"]],
    "decisions": [["history", "decisions"]],
    "broker_usage": [["history", "brokers"]],
    "balance": [["history", "imbalance"], ["history", "sql", "select * from balance"]],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_commands_end_with_the_sentence(data: Path, name: str, tmp_path: Path) -> None:
    file = file_of(data, name)
    file.write_bytes(zero_the_pages(file.read_bytes()))
    for words in COMMANDS[name]:
        where = [str(data), "--out", str(tmp_path / "out")] if words[0] == "replay" else ["--data", str(data)]
        done = CliRunner().invoke(main, [*words, *where])
        assert done.exit_code == 1, f"{words}: {done.output}"
        assert isinstance(done.exception, SystemExit), f"{words}: {done.exception!r}"
        assert file.name in done.stderr
        assert "Traceback" not in done.output + done.stderr


def test_a_damaged_file_keeps_only_its_own_date_from_being_compacted(data: Path) -> None:
    layout = PipelineLayout.of(data)
    first = table_files(layout, "bundle_samples")[0]
    for name in ("bundle_samples", "load_reports"):  # several files a date
        for file in table_files(layout, name):
            path = layout.root / file.path
            shutil.copy(path, path.with_name(f"batch-{file.last + 1_000:012d}.parquet"))
    (layout.root / first.path).write_bytes(b"no table")
    settings = CompactionSettings(run=2, grace_s=0, retention_days=None)
    with pytest.raises(DamagedTableError) as caught:
        keep_house(layout, completed_batch=10_000, newest_date="2030-01-01", now_s=0, settings=settings)
    assert caught.value.file == str(layout.root / first.path)
    folder = table_files(layout, "load_reports")[0].path.rpartition("/")[0]
    assert any(file.first != file.last for file in files_of_date(layout, folder)), "others are compacted all the same"


def test_a_damaged_state_of_the_pipeline_is_named(data: Path) -> None:
    states = StateFolder(PipelineLayout.of(data))
    newest = states.batch_ids()[-1]
    for file in ("bundles.parquet", "memory.json"):
        path = data / "pipeline" / "state" / f"{newest:012d}" / file
        content = path.read_bytes()
        path.write_bytes(content[: len(content) // 2])
        with pytest.raises(DamagedStateError) as caught:
            states.before(newest + 1)
        assert str(path.parent) in str(caught.value)
        path.write_bytes(content)
    assert states.before(newest + 1).batch_id == newest


def test_the_error_passes_between_processes() -> None:
    error = DamagedTableError("FILE", "what is wrong", "DATA")
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.file, again.detail, again.data) == (str(error), "FILE", "what is wrong", "DATA")
