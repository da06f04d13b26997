"""The faults of a real cluster, their order and duration: drawn from a seed alone."""

import enum
import math
import random
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final


class Kind(enum.Enum):
    """A kind of fault; the value is its name in a schedule."""

    KILL_OWNER = "kill the owner of a topic"
    KILL_LEADER = "kill the leader"
    STOP_OWNER = "stop the owner of a topic"
    STOP_LEADER = "stop the leader"
    KILL_STORE_NODE = "kill a node of the store"
    KILL_STORE_LEADER = "kill the leading node of the store"
    STOP_STORE_NODE = "stop a node of the store"
    STOP_STORE_LEADER = "stop the leading node of the store"
    CUT_FROM_STORE = "cut one broker from the store"
    DELAY_STORE = "hold the store's answers to one broker back"
    KILL_BOOKIE = "kill a bookie"
    STOP_BOOKIE = "stop a bookie"


OF_BROKERS: Final = (Kind.KILL_OWNER, Kind.KILL_LEADER, Kind.STOP_OWNER, Kind.STOP_LEADER)
OF_NODES: Final = (Kind.KILL_STORE_NODE, Kind.KILL_STORE_LEADER, Kind.STOP_STORE_NODE, Kind.STOP_STORE_LEADER)
OF_WAYS: Final = (Kind.CUT_FROM_STORE, Kind.DELAY_STORE)
OF_BOOKIES: Final = (Kind.KILL_BOOKIE, Kind.STOP_BOOKIE)
KINDS: Final[dict[str, tuple[Kind, ...]]] = {
    "sqlite": OF_BROKERS,
    "zookeeper": (*OF_BROKERS, *OF_NODES, *OF_WAYS),
    "etcd": (*OF_BROKERS, *OF_NODES, *OF_WAYS),
    "oxia": (*OF_BROKERS, *OF_NODES),
    "bookies": (*OF_BROKERS, *OF_NODES, *OF_WAYS, *OF_BOOKIES),
}
"""By the store: a file has no nodes, and nothing goes over a network to it. A client of Oxia asks who leads and goes
there, past what stands in between. `bookies` is ZooKeeper, and bookies of Apache BookKeeper with the messages."""
SHORT_FORM: Final = ("sqlite", "zookeeper", "etcd", "oxia")
"""The stores that start soon enough for the short form of the tests."""
_LASTS: Final = ((0.05, 0.7), (1.1, 1.6))
"""In session timeouts: what a session outlives, and what outlives a session."""
_UNFINISHED_MS: Final = 1000


@dataclass(frozen=True, slots=True)
class Fault:
    """`for_sessions` is its duration in session timeouts; a killed process is started again after it."""

    kind: Kind
    for_sessions: float
    pick: int
    """Which topic or node is concerned, modulo how many there are."""

    def __str__(self) -> str:
        return f"{self.kind.value} for {self.for_sessions:g} sessions (pick {self.pick})"


def shares(count: int, stores: Collection[str]) -> dict[str, int]:
    """Return how many of `count` faults each of `stores` gets: few faults by turns, many equally by kind. A store that
    is not among them gets none.

    Raises:
        ValueError: there is no such store, or `stores` is empty.
    """
    if not stores or not set(stores) <= KINDS.keys():
        raise ValueError(f"--fault-store {', '.join(stores)!r}: want some of {', '.join(KINDS)}")
    pairs = [name for name in KINDS if name in stores for _ in KINDS[name]]
    turns = pairs if count >= len(pairs) else list(dict.fromkeys(pairs))
    found = Counter(turns[number % len(turns)] for number in range(count))
    return {name: found[name] for name in KINDS}


def drawn(seed: int, kinds: Sequence[Kind], count: int) -> list[Fault]:
    """Draw `count` faults: as far as possible the same number of every kind, in any order.

    Half of them end within the session of their target, half outlast it.
    """
    source = random.Random(seed)
    rows = [*kinds] * (count // len(kinds)) + source.sample(kinds, count % len(kinds))
    source.shuffle(rows)
    return [Fault(kind, round(source.uniform(*source.choice(_LASTS)), 2), source.randrange(60)) for kind in rows]


def given_configuration(given: Iterable[str]) -> dict[str, str]:
    """Return the keys and values of `--fault-config`; the last value of a repeated key counts.

    Raises:
        ValueError: one of them is not KEY=VALUE.
    """
    found = {}
    for each in given:
        key, equals, value = each.partition("=")
        if not key or not equals:
            raise ValueError(f"--fault-config {each!r}: want KEY=VALUE")
        found[key] = value
    return found


@dataclass(frozen=True, slots=True)
class Begun:
    """A fault that began at `at_ms`, in ms since 1970."""

    fault: Fault
    at_ms: int


def near(begun: Sequence[Begun], time_ms: int) -> list[Fault]:
    """Return the faults that can have caused what was done at `time_ms`: the last one that had begun, and those that
    began within a second after, which ended what was being done. `begun` is in the order of time.
    """
    before = [each.fault for each in begun if each.at_ms <= time_ms]
    return before[-1:] + [each.fault for each in begun if time_ms < each.at_ms <= time_ms + _UNFINISHED_MS]


@dataclass(frozen=True, slots=True)
class Outcome:
    """`without_service_s` is the longest time for which a constantly sending producer got no acknowledgement."""

    store: str
    fault: Fault
    without_service_s: float


def figures(outcomes: Iterable[Outcome]) -> list[str]:
    """Return one row per store and kind: the count, and the time without service, median, 99th percentile, maximum."""
    rows: dict[tuple[str, str], list[float]] = {}
    for outcome in outcomes:
        rows.setdefault((outcome.store, outcome.fault.kind.value), []).append(outcome.without_service_s)
    return [
        f"| {store} | {kind} | {len(times)} | {percentile(times, 50):.1f} | {percentile(times, 99):.1f} "
        f"| {max(times):.1f} |"
        for (store, kind), times in sorted(rows.items())
    ]


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the smallest value that at least `percent` of all do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]
