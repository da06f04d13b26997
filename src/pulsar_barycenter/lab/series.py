"""What is kept of a run for every step: how balanced it was, what each broker used, what moved bundles carried.

Tables are kept packed: 100 brokers over a day of minutes are 144,000 figures, 0.3 MB in the file of a run.
"""

import zlib
from typing import Final

import msgspec
import numpy as np

from pulsar_barycenter.load.snapshot.load_snapshot import Floats
from pulsar_barycenter.replay.outcome import Outcome

USAGE_UNIT: Final = 1e-4
"""Usages of brokers are kept in so much of a broker."""
_ABSENT: Final = -1


class Series(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A figure a step: usage of the fullest and the least loaded live broker, their mean, the floor, how many live.

    `usage_of` are the usages of `names`, packed; `rate_of` what `bundles` carried at the steps `rated_at`, which are
    those that moved or were divided and their parts. `overload_limit` is that of the settings at the beginning,
    `event_ms` when something happened to the cluster.
    """

    at_ms: list[int]
    usage_max: list[float]
    usage_mean: list[float]
    usage_min: list[float]
    floor: list[float]
    brokers: list[int]
    step_ms: int
    overload_limit: float
    event_ms: list[int]
    names: list[str]
    usage_of: bytes
    bundles: list[str]
    rated_at: list[int]
    rate_of: bytes

    def usages(self) -> Floats:
        """Return the usage of each broker of `names`, a row a step, to four digits; NaN where it was not there."""
        return unpacked(self.usage_of, len(self.names)) * USAGE_UNIT

    def rates(self) -> Floats:
        """Return msg/s in + out of each of `bundles`, a row for each of `rated_at`; NaN where there was no such one."""
        return unpacked(self.rate_of, len(self.bundles))


def series_of(outcome: Outcome) -> Series:
    """Return what is kept of an outcome for every step."""
    live = outcome.live
    count = np.maximum(live.sum(axis=1), 1)
    usage = np.where(live, outcome.usage, 0.0)
    least = np.where(live, outcome.usage, np.inf).min(axis=1, initial=np.inf)
    return Series(
        at_ms=outcome.at_ms.tolist(),
        usage_max=usage.max(axis=1, initial=0.0).tolist(),
        usage_mean=(usage.sum(axis=1) / count).tolist(),
        usage_min=np.where(np.isfinite(least), least, 0.0).tolist(),
        floor=outcome.floor.tolist(),
        brokers=live.sum(axis=1).tolist(),
        step_ms=outcome.step_ms,
        overload_limit=outcome.overload_limit,
        event_ms=list(outcome.event_ms),
        names=list(outcome.brokers),
        usage_of=packed(np.where(live, outcome.usage / USAGE_UNIT, np.nan)),
        bundles=list(outcome.carried.bundles),
        rated_at=list(outcome.carried.steps),
        rate_of=packed(outcome.carried.rate),
    )


def packed(values: Floats) -> bytes:
    """Return a table of figures from 0 on, rounded to whole ones, below 2^31; NaN is kept.

    Changes from row to row are small numbers, which compress well.
    """
    whole = np.where(np.isnan(values), _ABSENT, np.minimum(np.rint(np.nan_to_num(values)), 2**31 - 1)).astype(np.int64)
    return zlib.compress(np.diff(whole, axis=0, prepend=0).astype("<i8").T.tobytes(), 6)


def unpacked(data: bytes, columns: int) -> Floats:
    """Return a table that was packed; it has as many columns, and one without columns has no rows."""
    changes = np.frombuffer(zlib.decompress(data), "<i8").reshape(columns, -1) if columns else np.zeros((0, 0))
    values = changes.T.cumsum(axis=0).astype(np.float64)
    return np.where(values == _ABSENT, np.nan, values)
