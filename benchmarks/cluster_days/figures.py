"""The figures of a run."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

from benchmarks.cluster_days.loads import Load
from benchmarks.cluster_days.watch import Look, Move
from benchmarks.machine import percentile
from benchmarks.manager_comparison.managers import FASTER
from pulsar_barycenter.demo.plan import TopicResult
from pulsar_barycenter.load.moved_back import Whereabouts, Window

_NEAR_S: Final = 1.0
OVERLOADED: Final = 0.85
"""The default of `loadBalancerBrokerOverloadedThresholdPercentage`."""
_FLAP: Final = Window(again=30 * 60 / FASTER, back=60 * 60 / FASTER)
"""As in docs/measures.md, in seconds of a run."""


def of_balance(load: Load, looks: Sequence[Look], moves: Sequence[Move], brokers: Sequence[str]) -> dict[str, float]:
    """Return imbalance, moves and flaps of the measured time; times are from the start of the load."""
    began_s, ended_s = load.times.warm_s, load.times.whole_s
    return {
        **imbalance(load, looks, brokers, began_s, ended_s),
        "moves": sum(began_s <= move.at_s < ended_s for move in moves),
        "moves while warming": sum(move.at_s < began_s for move in moves),
        "flaps": flaps([move for move in moves if move.at_s < ended_s], began_s),
    }


def imbalance(
    load: Load, looks: Sequence[Look], brokers: Sequence[str], began_s: float, ended_s: float
) -> dict[str, float]:
    """Return means over began_s ≤ time < ended_s, from the rates of the topics and the owners of their bundles:
    the greatest usage over the mean, the greatest minus the mean in points, and the sum over brokers of the usage above
    OVERLOADED in points. `looks` are counted from the start of the load."""
    ratio = above = over = whole = 0.0
    for look, following in pairwise(looks):
        if not began_s <= look.at_s < ended_s:
            continue
        carried = usages(load, look.owners, brokers, look.at_s)
        mean, lasts_s = sum(carried) / len(carried), following.at_s - look.at_s
        ratio += lasts_s * max(carried) / mean
        above += lasts_s * 100 * (max(carried) - mean)
        over += lasts_s * 100 * sum(max(0.0, usage - OVERLOADED) for usage in carried)
        whole += lasts_s
    return {"max / mean": ratio / whole, "max - mean": above / whole, "overload": over / whole}


def usages(load: Load, owners: Mapping[str, str], brokers: Sequence[str], at_s: float) -> list[float]:
    carried = dict.fromkeys(brokers, 0.0)
    for bundle, usage in load.usages_at(at_s).items():
        carried[owners[bundle]] += usage
    return list(carried.values())


def flaps(moves: Sequence[Move], began_s: float) -> int:
    """Return how many of the moves from `began_s` on came too soon after the bundle's last move, or went back; earlier
    moves are history only."""
    found, past = 0, dict[str, Whereabouts]()
    for move in moves:
        known = past.setdefault(move.bundle, Whereabouts())
        is_flap = _FLAP.is_flap(known.since_last(move.at_s), known.since_left(move.destination, move.at_s))
        found += is_flap and move.at_s >= began_s
        known.moved(move.source, move.at_s)
    return found


def gaps(
    load: Load, topics: Sequence[TopicResult], moves: Sequence[Move], began_s: float, ended_s: float
) -> dict[str, Any]:
    """Return figures of the times without a receipt that began in the measured time (seconds since 1970): of the
    longest one of each topic, in ms, and their sum. `moves` are those of the measured time.

    *Gaps at moves* has for each move the longest one of its topics, and the median over the topics of other bundles of
    theirs, of those that overlap the second before and after the move was seen. The latter is what the machine does.
    """
    own = {topic.topic: [gap for gap in topic.gaps if began_s <= gap[0] < ended_s] for topic in topics}
    every = [1_000 * _longest(found) for found in own.values()]
    at_moves = []
    for move in moves:
        at_s = began_s - load.times.warm_s + move.at_s
        near = {
            name: 1_000 * _longest([gap for gap in found if gap[0] < at_s + _NEAR_S and at_s - _NEAR_S < gap[1]])
            for name, found in own.items()
        }
        moved = [gap for name, gap in near.items() if load.bundle_of[name] == move.bundle]
        others = [gap for name, gap in near.items() if load.bundle_of[name] != move.bundle]
        at_moves.append((max(moved), percentile(others, 50)))
    return {
        "gap p50": percentile(every, 50),
        "gap p99": percentile(every, 99),
        "gap max": max(every),
        "gaps": every,
        "gaps at moves": at_moves,
        "topic seconds waited": sum(end - start for found in own.values() for start, end in found),
    }


def _longest(gaps_s: Sequence[tuple[float, float]]) -> float:
    return max((end - start for start, end in gaps_s), default=0.0)


def messages(topics: Sequence[TopicResult]) -> dict[str, float]:
    return {
        "produced": sum(topic.produced for topic in topics),
        "lost": sum(topic.lost + topic.failed for topic in topics),
        "out of order": sum(topic.out_of_order for topic in topics),
        "redelivered": sum(topic.duplicated for topic in topics),
    }
