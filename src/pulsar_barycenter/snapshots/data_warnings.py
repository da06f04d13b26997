"""Warnings about the data of a snapshot: values that are not numbers, outdated reports, bundles without windows.

Imports no numpy: the columns of a snapshot bring what is needed.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, cast

if TYPE_CHECKING:
    from pulsar_barycenter.load.snapshot.load_snapshot import Flags, LoadSnapshot

STALE_MS: Final = 1_800_000
"""The age from which a report is outdated: twice the default of the longest time between two reports of a broker."""

_MAX_NAMES: Final = 3


def data_warnings(snapshot: "LoadSnapshot") -> tuple[str, ...]:
    """Return one sentence for each kind of bad data in a snapshot (such as old reports), with the brokers or bundles
    that have it; empty if there is no bad data.
    """
    brokers, bundles = snapshot.brokers, snapshot.bundles
    age_ms = snapshot.taken_at_ms - brokers.reported_at_ms
    stale = (brokers.reported_at_ms > 0) & (snapshot.taken_at_ms > 0) & (age_ms > STALE_MS)
    has_limits = cast("Flags", (brokers.limit > 0).any(axis=0))
    unknown = bundles.sampled & ~bundles.has_windows & ~bundles.broker_bound
    found = (
        (brokers.suspect, brokers.names, "values that are not numbers, which count as 0"),
        (bundles.suspect, bundles.names, "values that are not numbers, which count as 0"),
        (stale, brokers.names, f"the last report is more than {STALE_MS // 60_000} minutes older than the snapshot"),
        (~has_limits, brokers.names, "no resource with a known limit, so usage counts as 0"),
        (unknown, bundles.names, "no load over time is known, so the bundle cannot be shed"),
    )
    return tuple(_sentence(flags.nonzero()[0].tolist(), names, what) for flags, names, what in found if flags.any())


def _sentence(rows: list[int], names: Sequence[str], what: str) -> str:
    named = ", ".join(names[row] for row in rows[:_MAX_NAMES])
    more = f" and {len(rows) - _MAX_NAMES} more" if len(rows) > _MAX_NAMES else ""
    return f"{named}{more}: {what}"
