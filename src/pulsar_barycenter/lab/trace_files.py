"""CSV files of traces, as commands name them: files, and folders of files."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from pulsar_barycenter.replay.errors import ReplayInputError
from pulsar_barycenter.replay.traces import Trace, read_trace


def csv_files(paths: Sequence[Path]) -> list[Path]:
    """Return the CSV files among `paths`, those of a folder by name.

    Raises:
        ReplayInputError: a folder has none.
    """
    files: list[Path] = []
    for path in paths:
        found = sorted(path.glob("*.csv")) if path.is_dir() else [path]
        if not found:
            raise ReplayInputError(f"{path}: no CSV file in this folder, so there are no traces")
        files += found
    return files


def trace_in(file: Path, read: Callable[[str, Iterable[str]], Trace] = read_trace) -> Trace:
    """Return the trace in a file, named as the file without its suffix.

    Raises:
        ReplayInputError: something is wrong in it; the text names the file and the line.
        OSError: it cannot be read.
    """
    with file.open(newline="") as lines:
        return replace(read(str(file), lines), name=file.stem)
