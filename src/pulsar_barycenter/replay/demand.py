"""The load that clients put on a cluster: the traffic of every bundle, or of every topic, in every time step."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from pulsar_barycenter.load.snapshot.load_snapshot import Floats, Integers
from pulsar_barycenter.naming.bundle import Bundle
from pulsar_barycenter.naming.counted import count_of
from pulsar_barycenter.naming.errors import InvalidNameError
from pulsar_barycenter.replay.errors import ReplayInputError

FIGURES: Final = ("rate_in", "rate_out", "throughput_in", "throughput_out")
MOST_SAMPLES: Final = 400_000_000
"""The maximum number of steps times sources. With all four rates, this is about 13 GB."""
SPREAD: Final = -1


@dataclass(frozen=True)
class Demand:
    """The load of a cluster over time, which is the input of a replay: the traffic of each source, and the bundle in
    which the source is at the start. A source is a topic, or a bundle whose topics are not known.

    Step k is from `start_ms + k * step_ms` (epoch ms), inclusive, to the begin of the next step, exclusive. The four
    rates (msg/s and bytes/s) have one row per step and one column per source. `sessions` (producers and consumers) and
    `topics` are numbers per source, the same in all steps.

    Source i is in the bundle `bundles[bundle_of[i]]`. `hashes[i]` is the hash of the topic, which no split divides; or
    SPREAD, for topics with equal load that are evenly distributed over a hash range. This is the range of the bundle,
    or, if `spans` is not None, the range inside it from the hash `spans[0, i]`, inclusive, to `spans[1, i]`, exclusive.

    `owners` are the brokers of the bundles at the start; "": the bundle has no owner, and the strategy assigns it.
    """

    start_ms: int
    step_ms: int
    bundles: tuple[str, ...]
    bundle_of: Integers
    hashes: Integers
    rate_in: Floats
    rate_out: Floats
    throughput_in: Floats
    throughput_out: Floats
    sessions: Integers
    topics: Integers
    owners: tuple[str, ...]
    spans: Integers | None = None

    @staticmethod
    def of_bundles(
        start_ms: int,
        step_ms: int,
        bundles: tuple[str, ...],
        rate_in: Floats,
        *,
        rate_out: Floats | None = None,
        bytes_a_message: float = 1024.0,
        throughput_in: Floats | None = None,
        throughput_out: Floats | None = None,
        sessions: Integers | None = None,
        topics: Integers | None = None,
        owners: tuple[str, ...] = (),
    ) -> "Demand":
        """Return a demand with one source for each bundle, whose topics are not known. It has been checked by `check`.

        `rate_in` has one row per step and one column per bundle, like the other rates. Defaults: the rates out are
        those in; throughput is rate × `bytes_a_message`; a bundle has 10 topics, and each topic one producer and one
        consumer; bundles have no owners.

        Raises:
            ReplayInputError: the demand cannot be replayed.
        """
        count = len(bundles)
        out = rate_in if rate_out is None else rate_out
        number = np.full(count, 10, np.int64) if topics is None else topics
        demand = Demand(
            start_ms,
            step_ms,
            bundles,
            np.arange(count),
            np.full(count, SPREAD, np.int64),
            rate_in,
            out,
            rate_in * bytes_a_message if throughput_in is None else throughput_in,
            out * bytes_a_message if throughput_out is None else throughput_out,
            number * 2 if sessions is None else sessions,
            number,
            owners or ("",) * count,
        )
        check(demand)
        return demand

    @property
    def steps(self) -> int:
        return len(self.rate_in)

    @property
    def sources(self) -> int:
        return len(self.bundle_of)

    def figures(self, step: int) -> Floats:
        """Return the four rates (msg/s in and out, bytes/s in and out) of all sources at a step, one row for each
        rate.
        """
        rows = (getattr(self, name)[step] for name in FIGURES)
        return np.array([row.astype(np.float64) for row in rows])

    def period(self, first: int, end: int) -> "Demand":
        """Return the demand of the steps from `first`, inclusive, to `end`, exclusive.

        Raises:
            ReplayInputError: the demand has no such steps.
        """
        if not 0 <= first < end <= self.steps:
            raise ReplayInputError(
                f"the chosen period, step {first} to step {end}, is not within the {self.steps} steps of the input;"
                " choose a period that the input covers"
            )
        parts = {name: getattr(self, name)[first:end] for name in FIGURES}
        rest = {
            name: getattr(self, name)
            for name in ("step_ms", "bundles", "bundle_of", "hashes", "sessions", "topics", "owners", "spans")
        }
        return Demand(start_ms=self.start_ms + first * self.step_ms, **parts, **rest)


def check(demand: Demand) -> None:
    """Check that the demand can be replayed.

    Raises:
        ReplayInputError: the demand has no steps or no bundles, is too large, or has a value that is not allowed.
    """
    if demand.steps == 0 or not demand.bundles:
        raise ReplayInputError(
            "the input has no load, because it has no time step or no bundle; give an input with samples"
        )
    if not 1_000 <= demand.step_ms <= 3_600_000:
        raise ReplayInputError(f"the step is {demand.step_ms} ms; give a step from 1 s to 1 h")
    if demand.steps * demand.sources > MOST_SAMPLES:
        raise ReplayInputError(
            f"{count_of(demand.steps, 'step')} of {demand.sources} load sources are more than the maximum of"
            f" {MOST_SAMPLES} samples; replay a shorter period"
        )
    _check_names(demand.bundles)
    if len(demand.owners) != len(demand.bundles):
        raise ReplayInputError(
            f"there are {len(demand.owners)} owners for {count_of(len(demand.bundles), 'bundle')};"
            " give one owner for each bundle"
        )
    for name in FIGURES:
        values = getattr(demand, name)
        if values.shape != (demand.steps, demand.sources):
            raise ReplayInputError(f"{name} is of shape {values.shape}, not {(demand.steps, demand.sources)}")
        wrong = ~(np.isfinite(values) & (values >= 0))
        if wrong.any():
            step, source = np.argwhere(wrong)[0].tolist()
            raise ReplayInputError(
                f"{name} of {demand.bundles[demand.bundle_of[source]]} is {values[step, source]} at step {step};"
                " rates must be numbers of at least 0"
            )
    if demand.spans is not None and not (demand.spans[0] < demand.spans[1]).all():
        raise ReplayInputError(
            "the hash range of a load source is empty; the end of a range must be greater than its begin"
        )
    if (demand.sessions < 0).any() or (demand.topics < 0).any():
        raise ReplayInputError("a bundle has a negative number of sessions or topics; these must be at least 0")


def _check_names(bundles: tuple[str, ...]) -> None:
    for before, name in zip(("", *bundles), bundles, strict=False):
        if name <= before:
            raise ReplayInputError(
                f"bundle {name} follows {before} in the input, although its name is not greater; give each bundle"
                " once, sorted by name"
            )
        try:
            Bundle.parse(name)
        except InvalidNameError as error:
            raise ReplayInputError(f"{name} is not a bundle: {error}") from None
