"""The keys of a cluster of bookies in the metadata store, below the cluster's root (`/ledgers` by default).

Each ledger has one key. The key's path consists of the digits of the ledger's id. A cluster has one layout of these
paths, which all its programs must use: a bookie deletes the entries of ledgers that it does not find in its own layout.

Source: `org.apache.bookkeeper.util.StringUtils` and `org.apache.bookkeeper.meta.LedgerLayout`.
"""

from enum import Enum
from itertools import pairwise
from typing import Final

from pulsar_barycenter.bookkeeper.errors import ClusterLayoutError

DEFAULT_ROOT: Final = "/ledgers"
MAX_LEDGER: Final = 2**63 - 1
"""The largest id of a ledger, inclusive."""
_LAST_OF_TEN_DIGITS: Final = 2**31 - 2
_SHORT_CUTS: Final[tuple[int, ...]] = (0, 2, 6, 10)
_LONG_CUTS: Final[tuple[int, ...]] = (0, 3, 7, 11, 15, 19)
_FACTORY: Final = "org.apache.bookkeeper.meta."


class Layout(Enum):
    """How the path of a ledger's key is made of its id. The values are the names that the key LAYOUT may have."""

    HIERARCHICAL = "HierarchicalLedgerManagerFactory"
    """The path has ten digits for ids up to 2^31 - 2, and nineteen digits above. BookKeeper's default, and Pulsar's
    only layout.
    """
    LONG_HIERARCHICAL = "LongHierarchicalLedgerManagerFactory"
    """The path always has nineteen digits."""


def ledger_path(root: str, layout: Layout, ledger: int) -> str:
    """Return the path of the key of `ledger`, an id from 0 to MAX_LEDGER inclusive."""
    is_short = layout is Layout.HIERARCHICAL and ledger <= _LAST_OF_TEN_DIGITS
    digits = f"{ledger:010}" if is_short else f"{ledger:019}"
    cuts = _SHORT_CUTS if is_short else _LONG_CUTS
    parts = [digits[start:stop] for start, stop in pairwise(cuts)]
    return "/".join((root, *parts[:-1], f"L{parts[-1]}"))


def ledger_of(root: str, path: str) -> int | None:
    """Return the id of the ledger whose key has this path; None if it is not the path of a ledger's key."""
    *folders, last = path.removeprefix(f"{root}/").split("/")
    digits = "".join((*folders, last.removeprefix("L")))
    is_key = last.startswith("L") and len(digits) in (10, 19) and digits.isascii() and digits.isdecimal()
    return int(digits) if is_key else None


def parse_layout(value: bytes) -> Layout:
    """Return the layout that the value of the cluster's key LAYOUT names.

    Raises:
        ClusterLayoutError: the value names a layout that this client does not write, or has an unknown format.
    """
    known = {f"2\n{_FACTORY}{layout.value}:1".encode(): layout for layout in Layout}
    found = known.get(value.strip())
    if found is None:
        raise ClusterLayoutError(
            f"the cluster's key LAYOUT is {value[:200]!r}; this client supports only the layouts "
            f"{' and '.join(layout.value for layout in Layout)}, of version 1"
        )
    return found
