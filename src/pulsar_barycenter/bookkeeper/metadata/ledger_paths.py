"""Keys of a cluster of bookies below its root, `/ledgers` by default.

Ledgers have one key each, in folders by the digits of the id. A cluster has one layout: a bookie deletes what it has of
ledgers that its own layout does not list.

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
    """How the id of a ledger becomes a key; the values are the factories that LAYOUT names."""

    HIERARCHICAL = "HierarchicalLedgerManagerFactory"
    """Ten digits up to 2^31 - 2, nineteen above. BookKeeper's default, and Pulsar's only one."""
    LONG_HIERARCHICAL = "LongHierarchicalLedgerManagerFactory"
    """Nineteen digits always."""


def ledger_path(root: str, layout: Layout, ledger: int) -> str:
    """Return the key of `ledger`, from 0 to MAX_LEDGER inclusive."""
    is_short = layout is Layout.HIERARCHICAL and ledger <= _LAST_OF_TEN_DIGITS
    digits = f"{ledger:010}" if is_short else f"{ledger:019}"
    cuts = _SHORT_CUTS if is_short else _LONG_CUTS
    parts = [digits[start:stop] for start, stop in pairwise(cuts)]
    return "/".join((root, *parts[:-1], f"L{parts[-1]}"))


def ledger_of(root: str, path: str) -> int | None:
    """Return the ledger whose key is `path`; None if that is no key of a ledger."""
    *folders, last = path.removeprefix(f"{root}/").split("/")
    digits = "".join((*folders, last.removeprefix("L")))
    is_key = last.startswith("L") and len(digits) in (10, 19) and digits.isascii() and digits.isdecimal()
    return int(digits) if is_key else None


def parse_layout(value: bytes) -> Layout:
    """Return the layout that the value of `LAYOUT` names.

    Raises:
        ClusterLayoutError: it names another one, or its format is unknown.
    """
    known = {f"2\n{_FACTORY}{layout.value}:1".encode(): layout for layout in Layout}
    found = known.get(value.strip())
    if found is None:
        raise ClusterLayoutError(
            f"the cluster's LAYOUT is {value[:200]!r}; this client writes the layouts"
            f" {' and '.join(layout.value for layout in Layout)} of version 1"
        )
    return found
