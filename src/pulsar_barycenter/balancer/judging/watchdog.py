"""Says when the balancer must not act: a state machine without a clock, whose input is one observation per round.

| state | moves may begin | leaves it |
|---|---|---|
| acting | yes | when a reason to pause shows |
| paused | no | to acting once the reason has passed; to handed back after `hand_back_ms` |
| handed back | no | never: a person starts the process again |

| reason to pause | passes |
|---|---|
| the view is older than two report intervals | with a current view |
| a foreign move: something else moves bundles too | `quiet_ms` after the last one |
| the imbalance grew after moves of this program | when it is back at the value before them |
| clients got more errors after moves of this program | when they are back at about the number before them |
| somebody switched the cluster's own shedding on | never: the balancer hands back at once |
| somebody switched the cluster's own splitting on, while this program splits | never, as above |
| the clocks of this machine and of the brokers differ too much | when they agree again |

Several reasons may hold; the state is paused while any does.
"""

import enum
from dataclasses import dataclass, field, replace
from typing import Final

from pulsar_barycenter.balancer.options import WatchLimits
from pulsar_barycenter.naming.counted import count_of

_INTERVALS: Final = 2
"""The age of a view, in report intervals, up to which it is current."""


class Watched(enum.StrEnum):
    ACTING = "acting"
    PAUSED = "paused"
    HANDED_BACK = "handed back"


class Cause(enum.StrEnum):
    OLD_VIEW = "old view"
    FOREIGN_MOVE = "foreign move"
    GREW = "imbalance grew"
    ERRORS = "client errors grew"
    SHEDDING_ON = "shedding switched on"
    SPLITTING_ON = "splitting switched on"
    CLOCK = "clock"


_SWITCHED_ON: Final = frozenset({Cause.SHEDDING_ON, Cause.SPLITTING_ON})


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """What a round observed, as input of the watchdog; times are epoch ms.

    `oldest_ms`: of each broker the newest load is taken, and this is the time of the oldest of these. `silent` are the
    brokers that have reported no load at all. `above_mean` is by how much the fullest broker's usage exceeds the mean
    (a fraction of a broker), `errors` how many errors clients get a minute; each is None if it is not known. `foreign`
    describes each move since the last round that this program did not ask for. `sheds` and `splits`: this program had
    switched the cluster's own shedding, or splitting, off, and it is on again. `clock` says how the clocks differ, ""
    if they agree. `acts`: this program has switched the cluster's own balancer off, and has to switch it on again when
    it stops.
    """

    at_ms: int
    oldest_ms: int
    silent: tuple[str, ...] = ()
    above_mean: float | None = None
    errors: float | None = None
    foreign: tuple[str, ...] = ()
    sheds: bool = False
    splits: bool = False
    clock: str = ""
    acts: bool = True


@dataclass(frozen=True, slots=True)
class Trial:
    """Moves of this program whose effect is being judged. `before` is the imbalance, or how many errors clients got a
    minute, before the first of these moves; `last_ms` is when the last of them ended (epoch ms).
    """

    before: float
    last_ms: int


@dataclass(frozen=True, slots=True)
class Watch:
    """The state of the watchdog, which pauses the balancer if something is wrong. `reasons` has the text for each cause
    of the pause; `since_ms` is when the pause began, `foreign_ms` when the last foreign move was seen (epoch ms).

    `trial` has the moves that are judged by the imbalance, `error_trial` those that are judged by the errors of
    clients; None if there are none. While the balancer pauses because its moves made the imbalance worse, `worse_than`
    is the imbalance before them; otherwise None. While it pauses because clients got more errors, `calm` is the number
    of errors a minute before the moves; otherwise None.
    """

    state: Watched = Watched.ACTING
    reasons: dict[Cause, str] = field(default_factory=dict)
    since_ms: int = 0
    foreign_ms: int | None = None
    trial: Trial | None = None
    worse_than: float | None = None
    error_trial: Trial | None = None
    calm: float | None = None

    @property
    def judges_errors(self) -> bool:
        """Whether the errors of clients have to be read for the next observation."""
        is_judged = self.error_trial is not None or self.calm is not None
        return is_judged and self.state is not Watched.HANDED_BACK

    @property
    def may_act(self) -> bool:
        return self.state is Watched.ACTING

    @property
    def why(self) -> str:
        """The reasons why the balancer may move nothing, as one text; blank if it may move bundles."""
        return "; ".join(self.reasons.values())


def watched(before: Watch, seen: Observed, limits: WatchLimits) -> Watch:
    """Return the state of the watchdog after one more observation."""
    if before.state is Watched.HANDED_BACK:
        return before
    after = _judged_by_errors(_judged(_with_foreign(before, seen), seen, limits), seen, limits)
    reasons = _reasons(before, after, seen, limits)
    if not reasons:
        return replace(after, state=Watched.ACTING, reasons={}, since_ms=0)
    since_ms = before.since_ms if before.state is Watched.PAUSED else seen.at_ms
    is_over = seen.acts and bool(_SWITCHED_ON & reasons.keys() or seen.at_ms - since_ms >= limits.hand_back_ms)
    state = Watched.HANDED_BACK if is_over else Watched.PAUSED
    return replace(after, state=state, reasons=reasons, since_ms=since_ms)


def _with_foreign(before: Watch, seen: Observed) -> Watch:
    return replace(before, foreign_ms=seen.at_ms) if seen.foreign else before


def _judged(watch: Watch, seen: Observed, limits: WatchLimits) -> Watch:
    """Return the state after judging the balancer's own moves: whether they have made the balance worse."""
    if seen.above_mean is None:
        return watch
    if watch.worse_than is not None and seen.above_mean <= watch.worse_than:
        watch = replace(watch, worse_than=None)
    if watch.trial is None or seen.at_ms - watch.trial.last_ms < limits.settle_ms:
        return watch
    grew = seen.above_mean - watch.trial.before > limits.grown
    return replace(watch, trial=None, worse_than=watch.trial.before if grew else watch.worse_than)


def _judged_by_errors(watch: Watch, seen: Observed, limits: WatchLimits) -> Watch:
    """Return the state after judging the balancer's own moves by the errors of clients.

    The number of errors a minute is compared with the number before the moves. If it has grown by more than
    `more_errors`, the balancer pauses at once. Observations are compared up to the first one that is made `settle_ms`
    or more after the last move; that one is included.
    """
    trial = watch.error_trial
    if trial is not None and seen.at_ms - trial.last_ms >= limits.settle_ms:
        watch = replace(watch, error_trial=None)
    if seen.errors is None:
        return watch
    if watch.calm is not None and seen.errors - watch.calm <= limits.more_errors:
        watch = replace(watch, calm=None)
    if trial is not None and seen.errors - trial.before > limits.more_errors:
        watch = replace(watch, calm=trial.before if watch.calm is None else watch.calm)
    return watch


def _reasons(before: Watch, after: Watch, seen: Observed, limits: WatchLimits) -> dict[Cause, str]:
    found: dict[Cause, str] = {}
    if seen.sheds:
        found[Cause.SHEDDING_ON] = (
            "somebody switched the cluster's own shedding on (loadBalancerSheddingEnabled=true), so two balancers "
            "would move bundles; start balance again to take over"
        )
    if seen.splits:
        found[Cause.SPLITTING_ON] = (
            "somebody switched the cluster's own splitting on (loadBalancerAutoBundleSplitEnabled=true); start balance "
            "again to take over, with --split never if the cluster is to split"
        )
    if old := _old(seen, limits):
        found[Cause.OLD_VIEW] = old
    if seen.clock:
        found[Cause.CLOCK] = seen.clock
    if after.foreign_ms is not None and seen.at_ms - after.foreign_ms < limits.quiet_ms:
        found[Cause.FOREIGN_MOVE] = _foreign(seen) or before.reasons.get(
            Cause.FOREIGN_MOVE, "something else moved bundles"
        )
    if after.worse_than is not None:
        grown = "" if seen.above_mean is None else f", and it is {100 * seen.above_mean:.1f} points now"
        found[Cause.GREW] = (
            "the usage above the mean grew after moves of this program: "
            f"it was {100 * after.worse_than:.1f} points{grown}"
        )
    if after.calm is not None:
        number = "an unknown number" if seen.errors is None else f"{seen.errors:,.0f}"
        found[Cause.ERRORS] = (
            f"clients get more errors after moves of this program: {after.calm:,.0f} a minute before, {number} now"
        )
    return found


def _old(seen: Observed, limits: WatchLimits) -> str:
    if seen.silent:
        return f"{seen.silent[0]} has reported no load yet"
    age_ms, most_ms = seen.at_ms - seen.oldest_ms, _INTERVALS * limits.report_interval_ms
    if age_ms <= most_ms:
        return ""
    return (
        f"the oldest load of a broker is {age_ms / 1000:,.0f} s old, more than two report intervals "
        f"({most_ms / 1000:,.0f} s)"
    )


def _foreign(seen: Observed) -> str:
    if not seen.foreign:
        return ""
    more = f" and {count_of(len(seen.foreign) - 1, 'other move')}" if len(seen.foreign) > 1 else ""
    return f"something else moves bundles too: {seen.foreign[0]}{more}"


def blind(*, looked_ms: int, now_ms: int, interval_ms: int) -> str:
    """Return why no further move of a round may begin: the cluster was last read more than two intervals ago, because
    moves took long, or because it cannot be read. "" if moves may begin. All times are epoch ms.
    """
    age_ms = now_ms - looked_ms
    if age_ms <= _INTERVALS * interval_ms:
        return ""
    return f"the last look at the cluster was {age_ms / 1000:,.0f} s ago, more than two intervals"


def moved_after(watch: Watch, before: float | None, errors: float | None, at_ms: int) -> Watch:
    """Return the state after moves of this program ended at `at_ms` (epoch ms). `before` is by how much the fullest
    broker's usage exceeded the mean before the moves, `errors` how many errors clients got a minute before the moves;
    each is None if it is not known. If earlier moves are still being judged, the values from before those earlier moves
    are kept.
    """
    return replace(
        watch,
        trial=_gone_on(watch.trial, before, at_ms),
        error_trial=_gone_on(watch.error_trial, errors, at_ms),
    )


def _gone_on(trial: Trial | None, before: float | None, at_ms: int) -> Trial | None:
    if before is None:
        return trial
    return Trial(trial.before if trial else before, at_ms)
