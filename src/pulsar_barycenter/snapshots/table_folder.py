"""Where the pipeline's tables are, for programs that perhaps do not read them: it imports no Arrow."""

from pathlib import Path
from typing import Final

REQUIRED: Final = ("bundle_samples", "bundle_data")
"""The tables without which there is no snapshot."""


class TablesError(ValueError):
    """The tables do not yield a snapshot; the text names the table and what is missing in it."""


def tables_below(folder: Path) -> Path | None:
    """Return the folder that has the pipeline's tables: `folder` itself, or the folder `tables` in it; None if neither
    has tables.
    """
    for root in (folder, folder / "tables"):
        if any((root / name).is_dir() for name in (*REQUIRED, "broker_data")):
            return root
    return None
