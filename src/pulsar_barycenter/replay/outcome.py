"""The record of a run: the load of each broker at each step, and all decisions."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

import msgspec
import numpy as np

from pulsar_barycenter.load.snapshot.load_snapshot import Flags, Floats, Integers


class Moved(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A bundle moved to another broker, or was assigned to one.

    `kind` is "unload", "split" (a part that was unloaded) or "assign" (it had no owner). `topics` and `sessions` were
    disturbed for `gap_ms`. `misplaced`: the destination's usage was above the mean after the moves of the step. `rate`
    is msg/s in + out.
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
    """A bundle was split by the simulated leader, for the reason `why`."""

    at_ms: int
    bundle: str
    broker: str
    parts: tuple[str, ...]
    why: str = ""


@dataclass(frozen=True, slots=True)
class BundleRates:
    """The load of some bundles: `rate` is msg/s in + out, with a row for each of `steps` and a column for each bundle.

    `steps` are some of the steps of the run. The rate is NaN in steps in which the bundle did not exist.
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
    """Collects the rates of all bundles at some steps of a run; `of` returns those of the bundles of interest."""

    def __init__(self, steps: int, bundles: int) -> None:
        most = max(1, min(MOST_RATED, _MOST_RATES // max(1, bundles)))
        self._every = -(-steps // most)
        self._taken: list[tuple[int, list[str], Floats]] = []

    def take(self, step: int, names: list[str], rate: Floats) -> None:
        """Store the rates of the bundles if the step is one of the sampled steps. The caller must not change `names`
        afterwards.
        """
        if step % self._every == 0:
            self._taken.append((step, names, rate.astype(np.float32)))

    def of(self, bundles: Iterable[str]) -> BundleRates:
        """Return the stored rates of these bundles without duplicates; if there are more than `MOST_CARRIED`, of the
        first ones only.
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
    """The outcome of a replayed run. Arrays have a row for each step and a column for each broker.

    `usage` is the largest of the true usages of CPU and bandwidths; 1.0 is full, and it may be higher. `cpu` is the
    usage of CPU; `rate` and `throughput` are in + out. `live` flags the brokers in the cluster. `floor` is, for each
    step, a lower bound for the usage of the most loaded broker under any distribution of the bundles: the total load
    over the total capacity, or the largest load that no split can divide on the strongest broker.

    `at_ms` are the begins of the steps, `event_ms` the times of the events within the steps.
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
