"""The errors of this package; those of reading tables are in `pipeline`."""

from pulsar_barycenter.load.managers import in_its_place
from pulsar_barycenter.pipeline.tables.schemas import TABLES


class MissingLibraryError(ImportError):
    """The call needs a library that is not installed; the text says how to install it."""

    def __init__(self, library: str, need: str) -> None:
        super().__init__(
            f"{library} is not installed, and this call needs it: pip install '{need}'", name=library.lower()
        )


class UnknownTableError(LookupError):
    """The history has no table of the requested name; the text lists the names of its tables."""

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no table {name!r}; {in_its_place(name, TABLES)}")
