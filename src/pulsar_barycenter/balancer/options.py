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
    """Whether the balancer or the cluster itself splits bundles that exceed the cluster's limits.

    AUTO: the balancer, if the cluster splits bundles itself as long as no balancer runs. ALWAYS: the balancer. NEVER:
    the balancer splits nothing; the cluster does, if its settings say so.
    """

    AUTO = "auto"
    """This program, while it acts on a cluster that splits on its own; the cluster's own splitting is off meanwhile."""
    ALWAYS = "always"
    """This program, also on a cluster that splits nothing on its own."""
    NEVER = "never"
    """The cluster, if it splits on its own; this program splits nothing."""

    def splits(self, mode: Mode, *, own: bool) -> bool:
        """Return whether this program decides on splits. `own` is whether the cluster splits bundles itself as long as
        no balancer has switched that off. In the mode `advise` the result is False: a person approves moves only, and
        nothing is split.
        """
        return mode is not Mode.ADVISE and (self is SplitWhen.ALWAYS or (self is SplitWhen.AUTO and own))


@dataclass(frozen=True, slots=True)
class Caps:
    """The limits of moves and splits.

    Args:
        at_once: How many moves are in progress at most.
        per_minute: How many moves begin in a minute at most.
        per_hour: How many moves begin in any 60 minutes at most.
        throughput_per_hour: The greatest sum of the throughputs (bytes/s, in + out) of the bundles that move in any 60
            minutes; 0 for no limit.
        grace_ms: For how long a bundle that moved does not move again.
        min_brokers: With fewer brokers whose reports are current, nothing moves and nothing is split.
        splits_per_hour: How many splits begin in any 60 minutes at most.
        timeout_s: A move or split that has not ended after this time has failed.
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
    """The limits of the watchdog.

    The measure of the balance is by how much the fullest broker's usage exceeds the mean, a fraction of a broker.
    `settle_ms` after the last of this program's moves it is compared with its value before the moves: if it has grown
    by more than `grown`, the moves made the balance worse. Until then, clients may get at most `more_errors` errors a
    minute more than before the moves.

    The load of a broker is too old after two of its report intervals, `report_interval_ms` each. After a foreign move
    (one that this program did not ask for), nothing moves for `quiet_ms`. After a pause of `hand_back_ms`, the balancer
    switches the cluster's own balancing on again.
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
    is the address of the binary protocol; "": the address that the brokers report. `grown` and `more_errors` are limits
    of the watchdog (`WatchLimits`). `approved_within_s` is how long a round waits for a person's approval; after that
    it is dropped. `metrics_port` is a port of 127.0.0.1; 0: no metrics are served. `sizing` is the rule by which the
    number of brokers that the load needs is computed.
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
        """Return the keys of the cluster's own balancing that this run switches off while it moves bundles; none in
        modes in which it does not. `own_splits` is whether the cluster splits bundles itself as long as no balancer has
        switched that off.
        """
        if self.mode is not Mode.ACT:
            return ()
        return (SHEDDING, SPLITTING) if self.split.splits(self.mode, own=own_splits) else (SHEDDING,)
