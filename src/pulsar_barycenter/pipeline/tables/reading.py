"""Opening the tables' files for reading: the one place that does, so that a damaged file is named, and what to do.

A file is damaged in many ways, and each layer below has its own words for them, most without the file's name. Here all
of them become a `DamagedTableError`. Pages have checksums (`tables.files` writes them), which are verified; a file
without is held to its schema and to valid text.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from pulsar_barycenter.pipeline.storage.files import Storage
from pulsar_barycenter.pipeline.storage.layout import TABLES_FOLDER
from pulsar_barycenter.pipeline.tables.files import table_files, with_lacking_columns
from pulsar_barycenter.pipeline.tables.schemas import TABLES

_DAMAGE: Final = (pa.ArrowException, OSError, KeyError, ValueError, TypeError, OverflowError, MemoryError)
"""What Arrow raises when a file is not what it should be."""
_LONGEST_DETAIL: Final = 300


class DamagedTableError(OSError):
    """A file of the tables is damaged, or of another version. `file` is its name for people, `data` that of the data
    directory it is in."""

    def __init__(self, file: str, detail: str, data: str) -> None:
        super().__init__(
            f"{file} cannot be read: {detail}. Restore it from a copy, or move it out of the tables: what it holds is"
            f" then missing. `barycenter pipeline refold --from-logs --data {data} --out DIR` computes all tables anew,"
            " as far as the logs of reports go back"
        )
        self.file = file
        self.detail = detail
        self.data = data

    def __reduce__(self) -> tuple[type["DamagedTableError"], tuple[str, str, str]]:
        return DamagedTableError, (self.file, self.detail, self.data)


@contextmanager
def naming_damage(file: str, data: str) -> Iterator[None]:
    """Raise what the reading of a file within the block fails with as DamagedTableError.

    Errors of the system, such as a file that is absent or may not be read, are raised as they are: Python has a number
    for them.
    """
    try:
        yield
    except DamagedTableError:
        raise
    except _DAMAGE as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise DamagedTableError(file, _detail(error), data) from error


def _detail(error: BaseException) -> str:
    if isinstance(error, KeyError):
        return f"it lacks a column, as if another version had written it: {error.args[0] if error.args else error}"
    text = str(error).strip().partition("\n")[0].rstrip(".")
    return text[:_LONGEST_DETAIL] or type(error).__name__


@contextmanager
def opened_table(storage: Storage, file: str) -> Iterator[pq.ParquetFile]:
    """Open a file of a table, a path in `storage`; what fails within the block is damage of this file.

    Raises:
        DamagedTableError: it cannot be read.
        OSError: the system does not let it be read; FileNotFoundError, it is absent.
    """
    with storage.local(file) as path, naming_damage(storage.address(file), storage.address()), _opened(path) as parquet:
        yield parquet


def require_columns(known: Collection[str], needed: Iterable[str]) -> None:
    """Return if a file has the columns that a reader needs.

    Raises:
        KeyError: one is missing.
    """
    for name in needed:
        if name not in known:
            raise KeyError(name)


@contextmanager
def opened_file(path: Path | str, *, dictionaries: Sequence[str] = ()) -> Iterator[pq.ParquetFile]:
    """Open a file of a table of this machine, where tasks have no `Storage`; columns named in `dictionaries` are read
    as such. Raises what `opened_table` does."""
    with naming_damage(str(path), _data_of(Path(path))), _opened(path, dictionaries) as parquet:
        yield parquet


def _data_of(path: Path) -> str:
    """Return the data directory of `<data>/tables/<name>/<date>/<file>`, or what is in its place."""
    parents = path.parents
    root = parents[min(2, len(parents) - 1)]
    return str(root.parent if root.name == TABLES_FOLDER else root)


def _opened(path: Path | str, dictionaries: Sequence[str] = ()) -> pq.ParquetFile:
    return pq.ParquetFile(path, page_checksum_verification=True, read_dictionary=list(dictionaries) or None)


def read_rows(storage: Storage, file: str, name: str, columns: Sequence[str], condition: Any | None = None) -> pa.Table:
    """Return columns of a file of the table `name`, of the rows that meet a condition, with the types of the table.

    Raises what `opened_table` does.
    """
    schema = pa.schema([TABLES[name].arrow_schema.field(column).with_nullable(True) for column in columns])
    with storage.local(file) as path, naming_damage(storage.address(file), storage.address()):
        with _opened(path) as parquet:
            known = set(parquet.schema_arrow.names)
        rows = pq.read_table(
            path,
            columns=[column for column in columns if column in known],
            filters=condition,
            partitioning=None,
            page_checksum_verification=True,
        )
        rows = with_lacking_columns(rows, name, columns).cast(schema)
        rows.validate(full=True)
        return rows


def raise_damage(storage: Storage, names: Collection[str], error: Exception) -> None:
    """Find out whether a reader failed with `error` because of a damaged file of some tables.

    Raises:
        DamagedTableError: so it is.
    """
    damage = first_damaged(storage, names)
    if damage is not None:
        raise damage from error


def first_damaged(storage: Storage, names: Collection[str]) -> DamagedTableError | None:
    """Read all files of some tables, and return the first damage; None if all is well.

    For a reader that got an error about damage without the file's name. Reads footers first, then all pages. What
    another process removed meanwhile is passed over.
    """
    files = [(name, file.path) for name in names for file in table_files(storage, name)]
    return _first(storage, files, whole=False) or _first(storage, files, whole=True)


def _first(storage: Storage, files: Iterable[tuple[str, str]], *, whole: bool) -> DamagedTableError | None:
    for name, file in files:
        try:
            with opened_table(storage, file) as opened:
                known = opened.schema_arrow.names
                require_columns(known, TABLES[name].key)
            if whole:
                read_rows(storage, file, name, [column for column in TABLES[name].schema.names if column in known])
        except DamagedTableError as error:
            return error
        except OSError:
            continue
    return None
