"""What is doubtful about the data of a snapshot: figures that are no numbers, old reports, bundles without a past."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from pulsar_barycenter.load.snapshot.load_snapshot import LoadSnapshot

STALE_MS: Final = 1_800_000
"""Twice the longest time between two reports of a broker by default."""

_NAMED: Final = 3


def doubts(snapshot: LoadSnapshot) -> tuple[str, ...]:
    """Return one sentence for each kind of doubtful data; nothing if there is none."""
    brokers, bundles = snapshot.brokers, snapshot.bundles
    age_ms = snapshot.taken_at_ms - brokers.reported_at_ms
    stale = (brokers.reported_at_ms > 0) & (snapshot.taken_at_ms > 0) & (age_ms > STALE_MS)
    no_limits = ~np.any(brokers.limit > 0, axis=0)
    unknown = bundles.sampled & ~bundles.has_windows & ~bundles.broker_bound
    found = (
        (brokers.suspect, brokers.names, "figures that are no numbers, which count as 0"),
        (bundles.suspect, bundles.names, "figures that are no numbers, which count as 0"),
        (stale, brokers.names, f"reports of more than {STALE_MS // 60_000} minutes before the snapshot was taken"),
        (no_limits, brokers.names, "no resource with a known limit, so usage counts as 0"),
        (unknown, bundles.names, "no windows known, so nothing of it can be shed"),
    )
    return tuple(_sentence(np.flatnonzero(flags).tolist(), names, what) for flags, names, what in found if flags.any())


def _sentence(rows: list[int], names: Sequence[str], what: str) -> str:
    named = ", ".join(names[row] for row in rows[:_NAMED])
    more = f" and {len(rows) - _NAMED} more" if len(rows) > _NAMED else ""
    return f"{named}{more}: {what}"
