"""Opens the files of tables for reading. All readers use it, so that an error names the damaged file and what to do.

Arrow and the system report damage with many kinds of errors, mostly without the name of the file. Here all of them
become a `DamagedTableError`. Pages have checksums (`tables.files` writes them), which are verified. A file without
checksums is checked against its schema and for valid text.
"""

import re
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
"""The errors that Arrow raises for a damaged file."""
_LONGEST_DETAIL: Final = 300


class DamagedTableError(OSError):
    """A file of a table is damaged, or another version of Barycenter wrote it with other columns.

    `file` is its full path or URL, `data` the full path or URL of its data directory, `detail` a text that says what is
    wrong.
    """

    def __init__(self, file: str, detail: str, data: str) -> None:
        super().__init__(
            f"{file} cannot be read: {detail}. Restore it from a copy, or move it out of the tables: its rows are"
            f" then missing. `barycenter pipeline refold --from-logs --data {data} --out DIR` computes all tables again"
            " from the logs of reports, as far as these go back"
        )
        self.file = file
        self.detail = detail
        self.data = data

    def __reduce__(self) -> tuple[type["DamagedTableError"], tuple[str, str, str]]:
        return DamagedTableError, (self.file, self.detail, self.data)


@contextmanager
def naming_damage(file: str, data: str) -> Iterator[None]:
    """Return a context manager that converts errors in its block, which reads the table file `file`, to
    DamagedTableError. `data` is the data directory of the file.

    Errors of the operating system (with an `errno`), such as a missing file or a missing permission, are raised
    unchanged.
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
        # Arrow's message has the name in quotes
        named = re.search(r'"(.+?)"', str(error.args[0])) if error.args else None
        column = named[1] if named else error
        return f"it has no column {column}; another version may have written it"
    text = str(error).strip().partition("\n")[0].rstrip(".")
    return text[:_LONGEST_DETAIL] or type(error).__name__


@contextmanager
def opened_table(storage: Storage, file: str) -> Iterator[pq.ParquetFile]:
    """Yield the file of a table, opened for reading; `file` is its path in `storage`. Errors of reading in the block
    count as damage of this file.

    Raises:
        DamagedTableError: the file is damaged.
        OSError: the system cannot read the file; FileNotFoundError: it is missing.
    """
    with storage.local(file) as path, naming_damage(storage.address(file), storage.address()), _opened(path) as parquet:
        yield parquet


def require_columns(known: Collection[str], needed: Iterable[str]) -> None:
    """Check that all `needed` columns are among `known`, the columns of a file.

    Raises:
        KeyError: a column is missing.
    """
    for name in needed:
        if name not in known:
            raise KeyError(name)


@contextmanager
def opened_file(path: Path | str, *, dictionaries: Sequence[str] = ()) -> Iterator[pq.ParquetFile]:
    """Open a file of a table by its local path. Tasks of Spark call this, because they have no `Storage`.

    The columns `dictionaries` are read as Arrow dictionaries. Raises the same errors as `opened_table`.
    """
    with naming_damage(str(path), _data_of(Path(path))), _opened(path, dictionaries) as parquet:
        yield parquet


def _data_of(path: Path) -> str:
    """Return the data directory of a table's file `<data>/tables/<name>/<date>/<file>`. For a path of another form,
    return its third parent folder.
    """
    parents = path.parents
    root = parents[min(2, len(parents) - 1)]
    return str(root.parent if root.name == TABLES_FOLDER else root)


def _opened(path: Path | str, dictionaries: Sequence[str] = ()) -> pq.ParquetFile:
    return pq.ParquetFile(path, page_checksum_verification=True, read_dictionary=list(dictionaries) or None)


def read_rows(storage: Storage, file: str, name: str, columns: Sequence[str], condition: Any | None = None) -> pa.Table:
    """Return the columns `columns` of the rows in a file of the table `name`, with the table's types. `condition`
    selects rows; None: all. Raises the same errors as `opened_table`.
    """
    whole = TABLES[name].arrow_schema
    schema = pa.schema([whole.field(column).with_nullable(True) for column in columns])
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
    """Find out whether a damaged file of the tables `names` caused `error`, which a reader raised. If no file is
    damaged, return.

    Raises:
        DamagedTableError: a file is damaged. Its cause is `error`.
    """
    damage = first_damaged(storage, names)
    if damage is not None:
        raise damage from error


def first_damaged(storage: Storage, names: Collection[str]) -> DamagedTableError | None:
    """Read all files of the tables `names`. Return the error of the first damaged file that is found, None if no file
    is damaged.

    A caller needs this if a reader's error does not name the file. The footers of all files are read first, then all
    pages. Files that another process deleted meanwhile are ignored.
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
