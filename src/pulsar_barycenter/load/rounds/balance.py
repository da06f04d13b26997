"""How evenly brokers are used, and how evenly they could be.

The measure is the **usage above the mean**: how many percentage points the usage of the fullest broker is above the
mean of all brokers that count. Usage is what strategies compare, the largest weighted resource usage of a broker: 100 %
is full. A broker counts if it is not drained and its report is not outdated. Traffic is not a measure of balance:
brokers that are nearly idle may differ much in traffic, and are equally empty.

| state | if |
|---|---|
| balanced | the fullest broker is at most EVEN_ABOVE_MEAN above the mean; `replay.measures` calls the same even |
| as even as bundles allow | it is higher, and moves of the present bundles cannot lower it by POINT or more |
| uneven | it is higher, and moves could lower it |
| unknown | fewer than two brokers count |

Worked example: three brokers at 7, 4 and 4 % have a mean of 5 %; the fullest is 2 points above it, so it is balanced.
"""

from enum import StrEnum
from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np

from pulsar_barycenter.load.filters.extensible_filters import ExtensibleFilterSettings
from pulsar_barycenter.load.shedding.least_disturbance.best_usage import POINT, BestUsage, best_usage
from pulsar_barycenter.load.shedding.least_disturbance.least_disturbance_settings import Settings
from pulsar_barycenter.load.snapshot.drained import drained_rows, with_drained, without_brokers
from pulsar_barycenter.load.snapshot.load_snapshot import LoadSnapshot
from pulsar_barycenter.naming.counted import count_of

if TYPE_CHECKING:
    from pulsar_barycenter.config.broker_config import BrokerConfig

EVEN_ABOVE_MEAN: Final = 0.10
"""Brokers are balanced if no usage is above the mean by more than this fraction."""
MEASURE: Final = "usage above the mean"


class BalanceState(StrEnum):
    BALANCED = "balanced"
    AS_EVEN_AS_BUNDLES_ALLOW = "as even as bundles allow"
    UNEVEN = "uneven"
    UNKNOWN = "unknown"


class Balance(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """How evenly the brokers are used. Usages are fractions of a broker. Brokers that are drained or whose report is
    outdated do not count. If fewer than two brokers count, the state is unknown: all usages are 0, and `fullest` is "".

    `measure` names what is measured: `above_mean` is how far the usage of the broker `fullest` is above `mean`, the
    mean of all `brokers` (their number). The cluster is balanced if this is at most `even_above_mean`.
    `reachable_above_mean` is the lowest value of it that moves of bundles could reach, and `moves` is their number; if
    moves cannot lower it by a whole point, `moves` is 0 and `reachable_above_mean` equals `above_mean`. `sentence` says
    all of this as text.
    """

    state: BalanceState
    measure: str = MEASURE
    brokers: int
    fullest: str = ""
    usage: float = 0.0
    mean: float = 0.0
    above_mean: float = 0.0
    reachable_above_mean: float = 0.0
    moves: int = 0
    even_above_mean: float = EVEN_ABOVE_MEAN
    sentence: str


def balance_of(snapshot: LoadSnapshot, config: "BrokerConfig") -> Balance:
    """Return how evenly the brokers of a snapshot are used. The brokers that `config` names as drained do not count."""
    snapshot = with_drained(snapshot, frozenset(config.barycenter_drained_brokers))
    gone = drained_rows(snapshot)
    if gone is not None:
        snapshot, _, _ = without_brokers(snapshot, gone)
    found = best_usage(snapshot, Settings.of(config), ExtensibleFilterSettings.of(config))
    return judged(snapshot.brokers.names, found)


def judged(names: tuple[str, ...], found: BestUsage) -> Balance:
    """Return how evenly brokers are used. `names` are the names of the brokers, `found` has their usages in the same
    order.
    """
    counted = np.flatnonzero(found.fresh)
    if len(counted) < 2:
        sentence = (
            "Balance needs two brokers that are not drained and whose load report is current: there "
            f"{'is 1' if len(counted) else 'are none'}."
        )
        return Balance(state=BalanceState.UNKNOWN, brokers=len(counted), sentence=sentence)
    usage, best = found.usage[counted], found.best[counted]
    place, mean = int(np.argmax(usage)), float(usage.mean())
    above = float(usage[place]) - mean
    reachable = max(0.0, min(above, float(best.max()) - mean))
    moves = found.moves if above - reachable >= POINT else 0
    if above <= EVEN_ABOVE_MEAN:
        state = BalanceState.BALANCED
    else:
        state = BalanceState.UNEVEN if moves else BalanceState.AS_EVEN_AS_BUNDLES_ALLOW
    balance = Balance(
        state=state,
        brokers=len(counted),
        fullest=names[counted[place]],
        usage=round(float(usage[place]), 4),
        mean=round(mean, 4),
        above_mean=round(above, 4),
        reachable_above_mean=round(reachable if moves else above, 4),
        moves=moves,
        sentence="",
    )
    return msgspec.structs.replace(balance, sentence=_sentence(balance))


_VERDICTS: Final = {
    BalanceState.BALANCED: "Balanced",
    BalanceState.AS_EVEN_AS_BUNDLES_ALLOW: "As even as the bundles allow",
    BalanceState.UNEVEN: "Uneven",
}


def _sentence(balance: Balance) -> str:
    text = (
        f"{_VERDICTS[balance.state]}: {balance.fullest} has the highest usage, {_percent(balance.usage)}, "
        f"{_points(balance.above_mean)} above the mean of {_percent(balance.mean)}; "
        f"up to {_points(balance.even_above_mean)} is balanced."
    )
    if balance.moves:
        moves = count_of(balance.moves, "move")
        return f"{text} {moves} could bring it to {_points(balance.reachable_above_mean)}."
    if balance.state is BalanceState.AS_EVEN_AS_BUNDLES_ALLOW:
        return f"{text} Moves cannot lower it by a point: split the heaviest bundle, or add a broker."
    return f"{text} Moves cannot lower it by a point."


def _percent(fraction: float) -> str:
    return f"{_number(fraction)} %"


def _points(fraction: float) -> str:
    number = _number(fraction)
    return f"{number} point" if number == "1" else f"{number} points"


def _number(fraction: float) -> str:
    """Return a fraction as text in percent: values below 20 % have one decimal, which is omitted if it is 0."""
    return f"{100 * fraction:.0f}" if fraction >= 0.1995 else f"{100 * fraction:.1f}".removesuffix(".0")
