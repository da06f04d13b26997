"""The settings of the strategy, and the constants that are derived from them."""

from collections.abc import Collection
from dataclasses import dataclass
from math import exp
from typing import TYPE_CHECKING, Final

from pulsar_barycenter.load.decisions import NO_LIMIT, bundles_of_round
from pulsar_barycenter.load.reports.load_report import DEFAULT_WEIGHTS, ResourceWeights
from pulsar_barycenter.load.reports.weights import resource_weights

if TYPE_CHECKING:
    from pulsar_barycenter.config.broker_config import BrokerConfig

NAME: Final = "LeastDisturbance"
BAND_KEY: Final = "barycenterLeastDisturbanceBandPercentage"
PATIENCE_KEY: Final = "barycenterLeastDisturbancePatienceMinutes"
MOVES_KEY: Final = "barycenterLeastDisturbanceMovesPerHour"
REPORT_KEY: Final = "loadBalancerReportUpdateMaxIntervalMinutes"

MINUTE_MS: Final = 60_000
_RECENT_ROUNDS: Final = 1.5
_SETTLED: Final = 5.0
"""The time constants of the two estimates, in rounds (of the recent one at most) and in multiples of the patience:
after it 37 % of a change is still missing."""
_FREE_ROUNDS: Final = 10
_SAVED_ROUNDS: Final = 3
"""For how many rounds moves are free after a change, and the moves of how many rounds the budget holds at most
(`budget`)."""
_BROKERS_OF_A_MOVE: Final = 2
_LEAST_MOVES: Final = 30
"""The default budget of an hour: a move for this many brokers, but at least _LEAST_MOVES."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of LeastDisturbance. `band` is how far a usage may be above the reachable usage before bundles move;
    `band` and `overload_limit` are fractions. `most` is the maximum number of bundles that one round moves. A round
    follows `round_min` minutes after the last one. `moves_an_hour` is the number of moves by which the budget grows in
    an hour (see `budget`); 0: the default for the size of the cluster.

    A change of load counts when it has lasted for the patience, `patience_min` minutes; on an overloaded broker, after
    half of it; with 0, at once. Reports older than `stale_ms` are outdated. A bundle that came to a broker stays there
    for at least `grace_ms`, and does not go back to the broker that it left for twice that time.
    """

    band: float = 0.06
    patience_min: float = 3.0
    overload_limit: float = 0.85
    grace_ms: int = 30 * MINUTE_MS
    stale_ms: int = 17 * MINUTE_MS
    most: int = NO_LIMIT
    round_min: float = 1.0
    moves_an_hour: int = 0
    weights: ResourceWeights = DEFAULT_WEIGHTS
    excluded_namespaces: Collection[str] = ()

    @staticmethod
    def of(config: "BrokerConfig") -> "Settings":
        longest_min = config.load_balancer_report_update_max_interval_minutes
        stale_ms = round((longest_min + 2 * config.load_balancer_shedding_interval_minutes) * MINUTE_MS)
        return Settings(
            band=config.barycenter_least_disturbance_band_percentage / 100,
            patience_min=config.barycenter_least_disturbance_patience_minutes,
            overload_limit=config.load_balancer_broker_overloaded_threshold_percentage / 100,
            grace_ms=round(config.load_balancer_shedding_grace_period_minutes * MINUTE_MS),
            stale_ms=stale_ms,
            most=bundles_of_round(config),
            round_min=config.load_balancer_shedding_interval_minutes,
            moves_an_hour=config.barycenter_least_disturbance_moves_per_hour,
            weights=resource_weights(config),
            excluded_namespaces=frozenset(config.load_balancer_shedding_excluded_namespaces),
        )

    def recent_weight(self, minutes: float) -> float:
        """Return the weight of a new measurement in the recent estimate of load, a fast moving average, if the
        measurement before it was `minutes` earlier.
        """
        return _weight(minutes, min(self.patience_min / 2, _RECENT_ROUNDS * self.round_min))

    def settled_weight(self, minutes: float) -> float:
        """Return the weight of a new measurement in the settled estimate of load, a slow moving average, if the
        measurement before it was `minutes` earlier.
        """
        return _weight(minutes, self.patience_min * _SETTLED)

    @property
    def soon_ms(self) -> int:
        """How long (ms) a bundle counts as new after it appeared. As long as new bundles have a large part of a
        broker's work, the broker neither gives nor takes bundles.
        """
        return round(self.patience_min * MINUTE_MS)

    @property
    def free_ms(self) -> int:
        """For how long (ms) moves are free after brokers joined or left, or bundles were split: ten rounds. In this
        time, a broker that joined gets its share of the load.
        """
        return round(_FREE_ROUNDS * self.round_min * MINUTE_MS)

    @property
    def saved_min(self) -> float:
        """The maximum of the budget, in minutes: it holds at most the moves that it gains in this time (three rounds).
        So moves that were not used for a long time are not made all at once.
        """
        return _SAVED_ROUNDS * self.round_min

    def moves_of_an_hour(self, brokers: int) -> int:
        """Return by how many moves the budget grows in an hour, in a cluster of this number of brokers."""
        return self.moves_an_hour or max(_LEAST_MOVES, brokers // _BROKERS_OF_A_MOVE)

    @property
    def goal(self) -> float:
        """The distance from its reachable usage at which a broker is near enough, as a fraction of usage: when it is
        reached, the broker gives no more bundles.
        """
        return 0.18 * self.band

    @property
    def scale(self) -> float:
        """The scale of the unevenness (`Unevenness`), as a fraction of usage. The excess of a broker is how far its
        usage is above its reachable usage; a broker whose excess is lower than the highest one by more than the scale
        has little influence on the unevenness.
        """
        return self.band / 2

    @property
    def least_gain(self) -> float:
        """The gain that a single move must exceed, as a fraction of usage. A move with a smaller gain counts as a move
        without gain.
        """
        return self.band / 16

    @property
    def price(self) -> float:
        """The price of a single move, as a fraction of usage × minutes. A move is made only when not making it has cost
        this much: the sum of its gain over the minutes in which it was not made. Its gain is by how much it lowers the
        unevenness (`Unevenness`).
        """
        return self.band * self.patience_min / 9

    @property
    def edge(self) -> float:
        """As soon as one broker is above its reachable usage by more than the band (`Settings.band`), other brokers
        give bundles too: those that are above theirs by more than this (a fraction).
        """
        return 0.6 * self.band


def _weight(minutes: float, span_min: float) -> float:
    return 1 - exp(-minutes / span_min) if span_min > 0 else 1.0
