"""The errors of this package; those of reading tables are in `pipeline`."""

from pulsar_barycenter.load.managers import in_its_place
from pulsar_barycenter.pipeline.tables.schemas import TABLES


class MissingLibraryError(ImportError):
    """A library is not installed that the call needs; the text says how to install it."""

    def __init__(self, library: str, need: str) -> None:
        super().__init__(
            f"{library} is not installed, and this call needs it: pip install '{need}'", name=library.lower()
        )


class UnknownTableError(LookupError):
    """A history has no table of this name; the text lists the names."""

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no table {name!r}; {in_its_place(name, TABLES)}")
