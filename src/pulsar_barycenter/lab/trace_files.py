"""Finds and reads CSV files of traces: files, and folders of files."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from pulsar_barycenter.replay.errors import ReplayInputError
from pulsar_barycenter.replay.traces import Trace, read_trace


def csv_files(paths: Sequence[Path]) -> list[Path]:
    """Return the CSV files in `paths`, in this order: a file itself, and for a folder the files in it whose names end
    with `.csv`, sorted by name.

    Raises:
        ReplayInputError: a folder has no CSV files.
    """
    files: list[Path] = []
    for path in paths:
        found = sorted(path.glob("*.csv")) if path.is_dir() else [path]
        if not found:
            raise ReplayInputError(
                f"{path}: the folder has no .csv files; give CSV files of timestamp,value, or a folder with such files"
            )
        files += found
    return files


def trace_in(file: Path, read: Callable[[str, Iterable[str]], Trace] = read_trace) -> Trace:
    """Return the trace in a CSV file; the trace's name is the file name without its suffix. `read` is the function that
    parses the lines.

    Raises:
        ReplayInputError: the content is not valid; the text names the file and the line.
        OSError: the file cannot be read.
    """
    with file.open(newline="") as lines:
        return replace(read(str(file), lines), name=file.stem)
