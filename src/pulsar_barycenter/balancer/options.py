"""The modes, and the limits of moves."""

import enum
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pulsar_barycenter.load.sizing import SizingRule
from pulsar_barycenter.operations.own_balancing import SHEDDING, SPLITTING

MINUTE_MS: Final = 60_000
HOUR_MS: Final = 3_600_000
MAX_AT_ONCE: Final = 100
MAX_PER_MINUTE: Final = 6_000.0
MAX_PER_HOUR: Final = 100_000
MAX_SPLITS_PER_HOUR: Final = 1_000
MORE_ERRORS: Final = 60.0
"""How many errors a minute more than before the moves clients may get."""
LEASE_TOPIC: Final = "persistent://public/default/barycenter-balance-lease"


class Mode(enum.StrEnum):
    OBSERVE = "observe"
    """Reads, decides and keeps the score; changes nothing in the cluster."""
    ADVISE = "advise"
    """Carries out a round once a person has approved it; the cluster's own shedding stays as it is."""
    ACT = "act"
    """Carries out every round; the cluster's own shedding is off meanwhile."""

    @property
    def moves(self) -> bool:
        """Whether this mode may move bundles, and so needs the lease."""
        return self is not Mode.OBSERVE


class SplitWhen(enum.StrEnum):
    """Whether the balancer or the cluster itself splits bundles that are too large by the cluster's limits."""

    AUTO = "auto"
    """This program, while it acts on a cluster that splits on its own; the cluster's own splitting is off meanwhile."""
    ALWAYS = "always"
    """This program, also on a cluster that splits nothing on its own."""
    NEVER = "never"
    """The cluster, if it splits on its own; this program splits nothing."""

    def splits(self, mode: Mode, *, own: bool) -> bool:
        """Return whether this program decides on splits; `own` is whether the cluster splits on its own while this
        program does not act. With `advise` this program splits nothing: an approval is for moves.
        """
        return mode is not Mode.ADVISE and (self is SplitWhen.ALWAYS or (self is SplitWhen.AUTO and own))


@dataclass(frozen=True, slots=True)
class Caps:
    """The limits of moves and splits. `per_hour` counts the moves of any 60 minutes, `splits_per_hour` the splits.
    `throughput_per_hour` is the sum of the throughput (bytes/s, in + out) of the bundles of these moves, 0 for no
    limit. A bundle that moved stays for `grace_ms`. With fewer than `min_brokers` brokers whose reports are current
    nothing moves, and nothing is split. A move or split that has not ended after `timeout_s` seconds has failed.
    """

    at_once: int = 1
    per_minute: float = 6.0
    per_hour: int = 60
    throughput_per_hour: float = 0.0
    grace_ms: int = 30 * MINUTE_MS
    min_brokers: int = 2
    splits_per_hour: int = 6
    timeout_s: float = 60.0


@dataclass(frozen=True, slots=True)
class WatchLimits:
    """The limits of the watchdog. Our moves made the balance worse if, `settle_ms` after the last of them, the usage
    above the mean (a fraction of a broker) exceeds that before them by more than `grown`. Until then, clients may get
    up to `more_errors` errors a minute more than before the moves. A view is too old after two report intervals of
    `report_interval_ms`. After a foreign move nothing moves for `quiet_ms`. After a pause of `hand_back_ms` the
    balancer hands back.
    """

    report_interval_ms: int
    grown: float = 0.05
    more_errors: float = MORE_ERRORS
    settle_ms: int = 3 * MINUTE_MS
    quiet_ms: int = 5 * MINUTE_MS
    hand_back_ms: int = 15 * MINUTE_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a run of the balancer is asked to do.

    The brokers at `urls` are read every `interval_s`; the run ends at a signal, or after `rounds` rounds if that is not
    0. `strategy` is the shedder, `changes` are settings (key=value) that override those of the cluster. `service_url`
    is the address of the binary protocol; blank: the one that a report names. `grown` and `more_errors` are limits of
    the watchdog. `approved_within_s` is how long a round waits for its approval. `metrics_port` is a port of 127.0.0.1,
    0 for none. `sizing` says how many brokers the load needs.
    """

    urls: Sequence[str]
    state: Path
    mode: Mode = Mode.OBSERVE
    strategy: str = "LeastDisturbance"
    changes: Sequence[str] = ()
    interval_s: float = 60.0
    rounds: int = 0
    service_url: str = ""
    keep_days: float = 7.0
    caps: Caps = field(default_factory=Caps)
    split: SplitWhen = SplitWhen.AUTO
    sizing: SizingRule = field(default_factory=SizingRule)
    grown: float = 0.05
    more_errors: float = MORE_ERRORS
    quiet_s: float = 300.0
    hand_back_s: float = 900.0
    approved_within_s: float = 3_600.0
    lease_topic: str = LEASE_TOPIC
    lease_s: float = 30.0
    metrics_port: int = 0

    def takes_over(self, *, own_splits: bool) -> tuple[str, ...]:
        """Return the keys of the cluster's own balancing that are off while this run acts; `own_splits` is whether the
        cluster splits on its own while no balancer acts.
        """
        if self.mode is not Mode.ACT:
            return ()
        return (SHEDDING, SPLITTING) if self.split.splits(self.mode, own=own_splits) else (SHEDDING,)
