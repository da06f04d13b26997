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
    """The result of a configuration on some parts of the history, as means over these parts and all seeds: the cost in
    points, the regret (fraction of a broker), and how often per day the average client was disturbed and bundles were
    unloaded.
    """

    cost: float
    regret: float
    disturbed_a_day: float
    unloads_a_day: float


class SettlingCost(_Document, frozen=True, kw_only=True):
    """What happened in the first part of the history, in which bundles may move only because the configuration is new.
    This part does not count for any other cost or gain.
    """

    unloads: float
    sessions_disturbed: float
    regret: float


class Configuration(_Document, frozen=True, kw_only=True):
    """A configuration that was replayed. `words` name its strategies; `settings` are those that differ from the present
    ones. `choosing` has its results on the parts of the history that are used for choosing, `held_out` those on the
    later parts, which only check the choice. `measures` are those of docs/measures.md on the held-out parts together.
    `going_over` is what happened in the first part, in which bundles may move only because the configuration is new.
    `gain` is the gain over the present configuration on the parts used for choosing, `gain_held_out` that on the
    held-out parts.
    """

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
    """A key of broker.conf that the advice changes: from the value `today` to `advised`. `is_dynamic`: running brokers
    can apply the change without a restart.
    """

    key: str
    today: str
    advised: str
    why: str
    is_dynamic: bool


class Difference(_Document, frozen=True, kw_only=True):
    """A measure whose values differ between the advised and the present configuration, on the held-out parts of the
    history.
    """

    measure: str
    title: str
    unit: str
    today: float
    advised: float


class Notch(_Document, frozen=True, kw_only=True):
    """What happens to the verdict if one setting is a little different: the key `key` has `value`, the next lower or
    next higher value, instead of the value `instead_of`. The other settings are those of the advised configuration, or
    of the present one if nothing is advised. `gain` is the gain over the present configuration on the parts used for
    choosing, `gain_held_out` on the held-out parts. `stands`: the verdict would be the same.
    """

    key: str
    value: str
    instead_of: str
    gain: Gain
    gain_held_out: Gain
    stands: bool


class OfSeed(_Document, frozen=True, kw_only=True):
    """The gain of the best other configuration over the present one in the replays with the seed `seed`, in points of
    cost, on the held-out parts.
    """

    seed: int
    gain: float


class Observed(_Document, frozen=True, kw_only=True):
    """What happened in the recorded cluster itself. It is compared with the replay of the same load under the present
    configuration.

    `departures` is the number of moves that were made because a broker left the cluster. `max_over_mean` and
    `deviation` are means over time. None: the tables do not show the value.
    """

    moves: int | None = None
    departures: int | None = None
    flaps: int | None = None
    splits: int | None = None
    max_over_mean: float | None = None
    deviation: float | None = None


class Compared(_Document, frozen=True, kw_only=True):
    """A value of the recorded history, and the value of the same quantity in the replay of that history."""

    title: str
    recorded: float
    replayed: float


class Period(_Document, frozen=True, kw_only=True):
    since_ms: int
    until_ms: int


class Rule(_Document, frozen=True, kw_only=True):
    """The parameters of the rule that selects the configuration; docs/advise.md explains the rule and the
    parameters.
    """

    price: float
    least_gain: float
    noises: float
    tie: float


class Advice(_Document, frozen=True, kw_only=True):
    """The whole recommendation of `barycenter advise`. `advised` is the recommended configuration, None if the present
    one should be kept. `best` is the best configuration other than the present one, even if it is not recommended; None
    if no other one was run.
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
