"""The recommendation as a value, `advice.json`. Values of a configuration are means over the seeds.

Costs and gains are in points (`weighing`), `regret` is a fraction of a broker, times are epoch ms, ends exclusive.
"""

import enum

import msgspec

from pulsar_barycenter.replay.advice.finding import AdviceFinding
from pulsar_barycenter.replay.advice.weighing import Gain
from pulsar_barycenter.replay.right_sizing import RightSizing


class AdviceVerdict(enum.StrEnum):
    CHANGE = "change"
    """Another configuration is better by more than noise, also on the held-out part."""
    KEEP = "keep"
    """No other configuration is better by more than noise."""
    UNCONFIRMED = "unconfirmed"
    """Another configuration is better, but not on the held-out part; the present one is kept."""


class _Document(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    pass


class Weighing(_Document, frozen=True, kw_only=True):
    """The mean cost and disturbance of a configuration, replayed on some parts of the history."""

    cost: float
    regret: float
    disturbed_a_day: float
    unloads_a_day: float


class SettlingCost(_Document, frozen=True, kw_only=True):
    """The cost of the first part of the history, in which a configuration settles; not part of other costs or gains."""

    unloads: float
    sessions_disturbed: float
    regret: float


class Configuration(_Document, frozen=True, kw_only=True):
    """A configuration that was run. `words` name its strategies; `settings` are the settings that differ from today's.
    `measures` are those of docs/measures.md on the held-out parts together, `going_over` is the cost of the settling
    part. `gain` is the gain over today's configuration on the parts used for choosing."""

    title: str
    words: str
    settings: dict[str, str]
    choosing: Weighing
    held_out: Weighing
    measures: dict[str, float]
    going_over: SettlingCost
    gain: Gain
    gain_held_out: Gain


class Change(_Document, frozen=True, kw_only=True):
    """A key of broker.conf that the advice changes. `is_dynamic`: running brokers apply the change without a
    restart.
    """

    key: str
    today: str
    advised: str
    why: str
    is_dynamic: bool


class Difference(_Document, frozen=True, kw_only=True):
    """A measure that differs between the advised configuration and today's, on the held-out parts."""

    measure: str
    title: str
    unit: str
    today: float
    advised: float


class Notch(_Document, frozen=True, kw_only=True):
    """The result of the judged configuration with one setting at its next lower or next higher value. `gain` is the
    gain over today's configuration on the parts used for choosing, `gain_held_out` on the held-out parts. `stands`: the
    verdict would be the same.
    """

    key: str
    value: str
    instead_of: str
    gain: Gain
    gain_held_out: Gain
    stands: bool


class OfSeed(_Document, frozen=True, kw_only=True):
    """The gain of the advised configuration in the runs with one seed, in points, on the held-out parts."""

    seed: int
    gain: float


class Observed(_Document, frozen=True, kw_only=True):
    """What happened in the recorded cluster itself, for comparison with the replay of the same load under today's
    configuration.

    `departures` are moves because a broker left. None: the tables do not have the value.
    """

    moves: int | None = None
    departures: int | None = None
    flaps: int | None = None
    splits: int | None = None
    max_over_mean: float | None = None
    deviation: float | None = None


class Compared(_Document, frozen=True, kw_only=True):
    """A value of the recorded history, and the same value of its replay."""

    title: str
    recorded: float
    replayed: float


class Period(_Document, frozen=True, kw_only=True):
    since_ms: int
    until_ms: int


class Rule(_Document, frozen=True, kw_only=True):
    """The parameters of the rule by which the configuration was selected; docs/advise.md."""

    price: float
    least_gain: float
    noises: float
    tie: float


class Advice(_Document, frozen=True, kw_only=True):
    """The whole recommendation of `barycenter advise`. `advised` is None if nothing is to be changed; `best` is the
    best configuration other than today's.
    """

    format: int = 1
    verdict: AdviceVerdict
    sentence: str
    rule: Rule
    settling: Period
    choosing: Period
    held_out: Period
    seeds: list[int]
    tried: int
    today: Configuration
    advised: Configuration | None
    best: Configuration | None
    without_balancing: Configuration | None
    changes: list[Change]
    worse: list[Difference]
    better: list[Difference]
    sensitivity: list[Notch]
    by_seed: list[OfSeed]
    observed: list[Compared]
    findings: list[AdviceFinding]
    right_sizing: RightSizing | None = None
    """The brokers that each hour of the week needs; None: the brokers of the history are not known."""
    warnings: list[str] = msgspec.field(name="doubts")
    configurations: list[Configuration]
