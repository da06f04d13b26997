"""The record of a run: the load of each broker at each step, and all decisions."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

import msgspec
import numpy as np

from pulsar_barycenter.load.snapshot.load_snapshot import Flags, Floats, Integers


class Moved(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A bundle moved to another broker, or was assigned to one.

    `kind` is "unload", "split" (a part of a split bundle that was moved) or "assign" (the bundle had no owner).
    `source` is "" if the bundle had no owner before. The `topics` and `sessions` of the bundle were without service for
    `gap_ms`. `misplaced`: after all moves of the step, the usage of the destination is above the mean. `rate` is msg/s
    in + out.
    """

    at_ms: int
    kind: str
    bundle: str
    source: str = ""
    destination: str = ""
    rate: float = 0.0
    topics: int = 0
    sessions: int = 0
    gap_ms: int = 0
    misplaced: bool = False
    why: str = ""


class Divided(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The simulated leader split the bundle `bundle` of the broker `broker` into `parts`. `why` is the reason."""

    at_ms: int
    bundle: str
    broker: str
    parts: tuple[str, ...]
    why: str = ""


@dataclass(frozen=True, slots=True)
class BundleRates:
    """The load of some bundles at some steps of a run: `rate` is msg/s in + out, with a row for each of `steps` and a
    column for each bundle. The rate is NaN at steps at which the bundle did not exist.
    """

    bundles: tuple[str, ...] = ()
    steps: tuple[int, ...] = ()
    rate: Floats = field(default_factory=lambda: np.zeros((0, 0)))


MOST_RATED: Final = 120
"""The rates of bundles are kept for at most this many steps, spread over the run; with very many bundles, for fewer."""
_MOST_RATES: Final = 20_000_000
MOST_CARRIED: Final = 5_000
"""The rates of at most this many bundles are kept: those in the first decisions."""


class Samples:
    """Stores the rates of all bundles at some steps of a run, evenly spread over it. `of` returns the rates of chosen
    bundles.
    """

    def __init__(self, steps: int, bundles: int) -> None:
        most = max(1, min(MOST_RATED, _MOST_RATES // max(1, bundles)))
        self._every = -(-steps // most)
        self._taken: list[tuple[int, list[str], Floats]] = []

    def take(self, step: int, names: list[str], rate: Floats) -> None:
        """Store the rates of all bundles if `step` is one of the steps at which rates are stored; otherwise do nothing.
        The caller must not change `names` afterwards.
        """
        if step % self._every == 0:
            self._taken.append((step, names, rate.astype(np.float32)))

    def of(self, bundles: Iterable[str]) -> BundleRates:
        """Return the stored rates of `bundles`, each once. If there are more than `MOST_CARRIED` bundles, return only
        the rates of the first ones.
        """
        wanted = tuple(dict.fromkeys(bundles))[:MOST_CARRIED]
        rate = np.full((len(self._taken), len(wanted)), np.nan)
        rows: dict[str, int] = {}
        known: list[str] | None = None
        for place, (_, names, rates) in enumerate(self._taken):
            if names is not known:
                rows, known = {name: row for row, name in enumerate(names)}, names
            there = [(column, rows[name]) for column, name in enumerate(wanted) if name in rows]
            for column, row in there:
                rate[place, column] = rates[row]
        return BundleRates(wanted, tuple(step for step, _, _ in self._taken), rate)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a replayed run. Arrays have one row for each step, and one column for each broker, unless they
    have only one value for each step.

    `usage` is the greatest of a broker's true usages of CPU and of bandwidth in and out; 1.0 is full, and it may be
    higher. `cpu` is the usage of CPU; `rate` (msg/s) and `throughput` (bytes/s) are in + out. `live` flags the brokers
    that are in the cluster. `floor` is, for each step, a value that the usage of the most loaded broker cannot be
    below, however the bundles are distributed. It is the greater of two: the total load divided by the total capacity,
    and the usage of the strongest broker if it had only the largest load that no split can divide.

    `at_ms` are the begins of the steps. `event_ms` are the times at which events happened.
    """

    at_ms: Integers
    step_ms: int
    brokers: tuple[str, ...]
    live: Flags
    usage: Floats
    cpu: Floats
    rate: Floats
    throughput: Floats
    unserved: Floats
    """The rate (msg/s in + out) of bundles that no broker served; one value for each step."""
    floor: Floats
    moves: tuple[Moved, ...]
    splits: tuple[Divided, ...]
    unserved_topic_s: float
    event_ms: tuple[int, ...]
    bundles: int
    overload_limit: float = 0.85
    carried: BundleRates = field(default_factory=BundleRates)
    """The rates of the bundles that were moved or split, and of their parts."""
    failed_unloads: int = 0
    """The number of unloads that failed."""
