"""The stored values of each step of a run: the balance, the usage of each broker, the rates of moved bundles.

Tables are stored compressed: 100 brokers over a day of minutes are 144,000 values, 0.3 MB in the file of a run.
"""

import zlib
from typing import Final

import msgspec
import numpy as np

from pulsar_barycenter.load.snapshot.load_snapshot import Floats
from pulsar_barycenter.replay.outcome import Outcome

USAGE_UNIT: Final = 1e-4
"""The unit in which usages of brokers are stored, as a fraction of a broker."""
_ABSENT: Final = -1


class Series(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """What is stored of a run. `at_ms` and the following lists have an item for each step: the time (epoch ms), the
    highest, mean and lowest usage of live brokers, the floor (a lower bound of the highest usage), and the number of
    live brokers.

    `usage_of` is the table of the usages of the brokers `names`, compressed by `packed`. `rate_of` is the table of the
    rates of the bundles `bundles`, compressed likewise: only bundles that moved or were split, and their parts, and
    only at the steps `rated_at`. `overload_limit` is from the initial settings; `event_ms` are the times of the
    cluster's events.
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
        """Return the usage of each broker of `names`, one row per step, as fractions with four decimal places; NaN
        while the broker did not run.
        """
        return unpacked(self.usage_of, len(self.names)) * USAGE_UNIT

    def rates(self) -> Floats:
        """Return the rate (msg/s in + out) of each of `bundles`, one row for each step in `rated_at`; NaN while a
        bundle did not exist.
        """
        return unpacked(self.rate_of, len(self.bundles))


def series_of(outcome: Outcome) -> Series:
    """Return the values of each step of the replay `outcome`, in the form in which they are stored."""
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
    """Return the table `values` in compressed form. Values from 0 to 2^31 - 1 are rounded to whole numbers, greater
    values are replaced by 2^31 - 1; NaN stays NaN.

    The differences between consecutive rows are stored: they are small numbers, which compress well.
    """
    whole = np.where(np.isnan(values), _ABSENT, np.minimum(np.rint(np.nan_to_num(values)), 2**31 - 1)).astype(np.int64)
    return zlib.compress(np.diff(whole, axis=0, prepend=0).astype("<i8").T.tobytes(), 6)


def unpacked(data: bytes, columns: int) -> Floats:
    """Return the table that `packed` compressed into `data`; it has `columns` columns. If `columns` is 0, the result is
    an empty table.
    """
    changes = np.frombuffer(zlib.decompress(data), "<i8").reshape(columns, -1) if columns else np.zeros((0, 0))
    values = changes.T.cumsum(axis=0).astype(np.float64)
    return np.where(values == _ABSENT, np.nan, values)
