"""UniformLoadShedder: unload from the broker with the most messages or bytes if another broker has far less.

Worked example (share 0.2): brokers at 50,000 and 30,000 msg/s differ by 66.7 %, more than 50 %. So a fifth of the
difference, 4,000 msg/s, leaves the first broker, heaviest bundles first; bundles that do not fit are skipped. At 450
and 100 MB/s the factor is 4.5, more than 4, and 70 MB/s leave.

When to use it: equal brokers whose load follows their traffic. When not: unequal brokers, since it takes a stronger
broker, which carries more, for the more loaded one; or many idle brokers at once, since each run serves only one.

Source: Pulsar's `UniformLoadShedder` (4.x). Where we differ: of brokers with equal traffic the one with the smaller
name counts.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Final, Self

import numpy as np

from pulsar_barycenter.load.decisions import NO_LIMIT, bundles_of_round
from pulsar_barycenter.load.reasons import Code, Compared, Reason, format_figure
from pulsar_barycenter.load.shedding.fitting import LARGEST, FittingPlan, rows_by_owner, take_fitting
from pulsar_barycenter.load.shedding.ordering import heaviest_first
from pulsar_barycenter.load.shedding.shedder import Shedder
from pulsar_barycenter.load.snapshot.load_snapshot import Flags, Floats, Indices, Integers, LoadSnapshot

if TYPE_CHECKING:
    from pulsar_barycenter.config.broker_config import BrokerConfig

NAME: Final = "UniformLoadShedder"
_NOTHING: Final = 1e-6
_RATE_KEY: Final = "loadBalancerMsgRateDifferenceShedderThreshold"
_THROUGHPUT_KEY: Final = "loadBalancerMsgThroughputMultiplierDifferenceShedderThreshold"


@dataclass(frozen=True, slots=True)
class UniformLoadShedder(Shedder[None]):
    """The strategy UniformLoadShedder. A threshold of 0 switches off the criterion that uses it. `max_bundles` is the
    maximum number of bundles that one round selects; -1: no limit.

    `rate_difference` is in percent of the lowest rate, `throughput_factor` a multiple of the lowest throughput. The
    minima are msg/s and bytes/s in + out. `most` is the maximum number of bundles that one round unloads.
    """

    name: ClassVar[str] = NAME

    rate_difference: float = 50.0
    throughput_factor: float = 4.0
    share: float = 0.2
    minimum_rate: float = 1_000
    minimum_throughput: float = 1_048_576
    max_bundles: int = -1
    most: int = NO_LIMIT

    @classmethod
    def of(cls, config: "BrokerConfig") -> Self:
        return cls(
            rate_difference=config.load_balancer_msg_rate_difference_shedder_threshold,
            throughput_factor=config.load_balancer_msg_throughput_multiplier_difference_shedder_threshold,
            share=config.max_unload_percentage,
            minimum_rate=config.min_unload_message,
            minimum_throughput=config.min_unload_message_throughput,
            max_bundles=config.max_unload_bundle_num_per_shedding,
            most=bundles_of_round(config),
        )

    def start(self) -> None:
        return None

    def decide(self, snapshot: LoadSnapshot, memory: None) -> tuple["FittingPlan", None]:
        """Return the plan: from the broker with the highest traffic, the heaviest bundles that fit into the whole part
        of `(highest - lowest) * share`.

        Message rates are compared first: bundles leave if the highest rate exceeds the lowest by more than
        `rate_difference` percent. If it does not, throughputs are compared: bundles leave if the highest throughput is
        more than `throughput_factor` times the lowest. Nothing leaves a broker with fewer than two bundles, or if the
        amount is below the minimum. Bundles without traffic always fit.
        """
        rate, throughput = _spread(snapshot.brokers.latest.rate), _spread(snapshot.brokers.latest.throughput)
        by_rate = self.rate_difference > 0 and _difference(rate) > self.rate_difference
        by_throughput = self.throughput_factor > 0 and _factor(throughput) > self.throughput_factor
        spread, minimum = (
            (throughput, self.minimum_throughput) if by_throughput and not by_rate else (rate, self.minimum_rate)
        )
        need = _whole((spread.greatest - spread.least) * self.share)
        over = (by_rate or by_throughput) and spread.top >= 0
        enough = over and snapshot.brokers.bundle_count[spread.top] > 1
        sheds = bool(enough and need >= minimum)
        verdicts = UniformVerdicts(self, len(snapshot.brokers), rate, throughput, by_rate, by_throughput, sheds, need)
        rows, before = _choose(snapshot, verdicts) if sheds else (np.zeros(0, np.int64), np.zeros(0))
        waiting = verdicts.sheds if len(rows) > self.most else None
        return FittingPlan(NAME, snapshot, verdicts, rows[: self.most], before[: self.most], waiting=waiting), memory


@dataclass(frozen=True, slots=True)
class Spread:
    """The greatest and the least value of a metric over all brokers, and the rows of these two brokers; -1: no broker
    was found.

    As in Pulsar, the search for the greatest value starts at -1 and the search for the least at LARGEST, and a broker
    is found only if its value is above, or below, this start. A `least` of nearly 0 is replaced by 1, as in Pulsar;
    `is_raised` is then True.
    """

    greatest: float
    least: float
    top: int
    bottom: int
    is_raised: bool


def _spread(values: Floats) -> Spread:
    top, bottom = (int(np.argmax(values)), int(np.argmin(values))) if len(values) else (-1, -1)
    greatest, least = -1.0, float(LARGEST)  # where Pulsar's searches begin
    if top >= 0 and values[top] > greatest:
        greatest = float(values[top])
    else:
        top = -1
    if bottom >= 0 and values[bottom] < least:
        least = float(values[bottom])
    else:
        bottom = -1
    is_raised = abs(least) <= _NOTHING
    return Spread(greatest, 1.0 if is_raised else least, top, bottom, is_raised)


def _difference(spread: Spread) -> float:
    """Return how far the greatest value of a `Spread` is above the least, in percent of the least."""
    return (spread.greatest - spread.least) * 100 / spread.least


def _factor(spread: Spread) -> float:
    return spread.greatest / spread.least


def _whole(value: float) -> int:
    """Return the whole part of `value`, bounded to a Java `int` as in Pulsar; 0 for NaN."""
    return 0 if math.isnan(value) else int(max(-LARGEST - 1, min(LARGEST, value)))


def _choose(snapshot: LoadSnapshot, verdicts: "UniformVerdicts") -> tuple[Integers, Floats]:
    """Return the rows of the bundles that leave, and for each the budget that was left before it. If bundles have to
    wait because the round has its maximum, the result has one row more than the round unloads, to show this.
    """
    rows = rows_by_owner(snapshot, np.array([verdicts.source]))[0]
    short = snapshot.bundles.short
    traffic = (
        short.rate_in[rows] + short.rate_out[rows]
        if verdicts.rates
        else short.throughput_in[rows] + short.throughput_out[rows]
    )
    limit, most = verdicts.settings.max_bundles, verdicts.settings.most + 1
    count = most if limit == -1 else min(limit, most)
    taken, before = take_fitting(traffic, verdicts.amount, count, whole=True)
    left = before[-1] - _whole(float(traffic[taken[-1]])) if len(taken) else float(verdicts.amount)
    idle = np.flatnonzero(traffic <= 0)
    idle = idle[heaviest_first(traffic[idle], count - len(taken))]
    # negative traffic increases the budget by its whole part, as it does in Pulsar
    given_back = np.cumsum(-np.clip(np.trunc(traffic[idle]), -LARGEST - 1, 0))
    positions = np.concatenate((taken, idle))
    lefts = np.concatenate((before, left + np.concatenate(([0.0], given_back))[: len(idle)]))
    return rows[positions], lefts


@dataclass(frozen=True)
class UniformVerdicts:
    """The values that the strategy compared. `amount` is the traffic that may leave the source: in msg/s if `rates` is
    True, else in bytes/s.

    Values that are the same for every bundle of a plan are computed only once.
    """

    settings: UniformLoadShedder
    brokers: int
    rate: Spread
    throughput: Spread
    rate_exceeds: bool
    throughput_exceeds: bool
    acts: bool
    amount: int

    @property
    def rates(self) -> bool:
        """Whether the decision is by message rates, otherwise it is by throughputs. It is by rates if the rates exceed
        their threshold, or if neither exceeds its threshold.
        """
        return self.rate_exceeds or not self.throughput_exceeds

    @property
    def spread(self) -> Spread:
        return self.rate if self.rates else self.throughput

    @property
    def source(self) -> int:
        """The row of the broker with the highest traffic, from which bundles leave; -1: there is none (see
        `Spread`).
        """
        return self.spread.top

    @cached_property
    def sheds(self) -> Flags:
        flags = np.zeros(self.brokers, bool)
        if self.acts:
            flags[self.source] = True
        return flags

    @cached_property
    def need(self) -> Floats:
        return np.where(self.sheds, float(self.amount), 0.0)

    @cached_property
    def by_rate(self) -> Flags:
        return np.full(self.brokers, self.rates)

    @cached_property
    def destination(self) -> Indices:
        return np.full(self.brokers, -1, np.int32)

    def overall(self, snapshot: LoadSnapshot) -> Reason:
        if self.source < 0:
            return Reason(code=Code.BALANCED, strategy=NAME)
        verdict = self.broker(snapshot, self.source)
        if self.acts:
            return verdict
        return Reason(code=Code.BALANCED, strategy=NAME, settings=verdict.settings, cause=verdict)

    def broker(self, snapshot: LoadSnapshot, broker: int) -> Reason:
        code, compared, settings = self._verdict(snapshot, broker)
        return Reason(
            code=code,
            strategy=NAME,
            subject=snapshot.brokers.names[broker],
            compared=compared,
            settings=settings,
            flags=snapshot.brokers.flags_of(broker),
            detail="" if code is Code.NOT_THE_GREATEST else self._extremes(snapshot),
        )

    def _verdict(self, snapshot: LoadSnapshot, broker: int) -> tuple[Code, tuple[Compared, ...], tuple[str, ...]]:
        unit, latest = (
            ("msg/s", snapshot.brokers.latest.rate) if self.rates else ("bytes/s", snapshot.brokers.latest.throughput)
        )
        if broker != self.source:
            highest = f"traffic of {snapshot.brokers.names[self.source]}" if self.source >= 0 else "highest traffic"
            greatest = Compared("traffic", float(latest[broker]), "<=", highest, self.spread.greatest, unit)
            return Code.NOT_THE_GREATEST, (greatest,), ()
        if not (self.rate_exceeds or self.throughput_exceeds):
            return Code.DIFFERENCE_TOLERATED, self._criteria(), (_RATE_KEY, _THROUGHPUT_KEY)
        criteria, key = self._criteria(), _RATE_KEY if self.rates else _THROUGHPUT_KEY
        minimum, minimum_key = (
            (self.settings.minimum_rate, "minUnloadMessage")
            if self.rates
            else (self.settings.minimum_throughput, "minUnloadMessageThroughput")
        )
        count = float(snapshot.brokers.bundle_count[broker])
        if count <= 1:
            few = Compared("bundles", count, "<", "minimum", 2, "bundles")
            return Code.TOO_FEW_BUNDLES, (*criteria, few), ("loadBalancerAutoBundleSplitEnabled",)
        relation = ">=" if self.acts else "<"
        worth = Compared("traffic to shed", float(self.amount), relation, "minimum", minimum, unit)
        code = Code.FAR_ABOVE_LEAST if self.acts else Code.BELOW_MINIMUM_THROUGHPUT
        return code, (*criteria, worth), (key, "maxUnloadPercentage", minimum_key)

    def _extremes(self, snapshot: LoadSnapshot) -> str:
        """Return as text the highest and the lowest traffic, by the criterion that decides, and the brokers that have
        it; "" if no such brokers were found (see `Spread`).
        """
        spread, names, latest = self.spread, snapshot.brokers.names, snapshot.brokers.latest
        if spread.top < 0 or spread.bottom < 0:
            return ""
        what, unit, values = ("message rate", "msg/s", latest.rate)
        if not self.rates:
            what, unit, values = ("throughput", "bytes/s", latest.throughput)
        highest, lowest = (format_figure(values.item(row), unit) for row in (spread.top, spread.bottom))
        return f"{what} {highest} on {names[spread.top]}, {lowest} on {names[spread.bottom]}"

    def _criteria(self) -> tuple[Compared, ...]:
        """Return the comparison that decided. If none did, return the comparisons of all criteria that are switched
        on.
        """
        rate = Compared(
            f"difference to the lowest message rate{', where 0 counts as 1 msg/s,' if self.rate.is_raised else ''}",
            # Pulsar counts a lowest rate of 0 as 1, so the difference of idle brokers would be negative
            max(0.0, _difference(self.rate) / 100),
            ">" if self.rate_exceeds else "<=",
            "threshold",
            self.settings.rate_difference / 100,
            "%",
        )
        factor = Compared(
            f"ratio to the lowest throughput{', where 0 counts as 1 byte/s,' if self.throughput.is_raised else ''}",
            _factor(self.throughput),
            ">" if self.throughput_exceeds else "<=",
            "threshold",
            self.settings.throughput_factor,
        )
        if self.rate_exceeds:
            return (rate,)
        if self.throughput_exceeds:
            return (factor,)
        shown = ((self.settings.rate_difference, rate), (self.settings.throughput_factor, factor))
        return tuple(compared for threshold, compared in shown if threshold > 0)
