"""Reads scenarios from TOML files, with what is expected of them; docs/replay.md describes the form.

A file describes a cluster, its load, events, and expectations about each strategy that is run in it:

    about = "Seven brokers share load that one of them had alone."
    brokers = 7

    [load]
    bundles = 70
    usage = 0.4
    placed = "one-broker"

    [expect]
    balance = { at_most = 1.2 }

`balance` and `steady` are about the last minutes of the run: that the fullest broker is near the mean, and that no
broker's usage goes up and down. `conforms` is that every bundle has a broker then. `measures` limits any of
`replay.measures`.

Source: the form is our own; the three kinds of expectation are those of the allocator simulation of CockroachDB
(`pkg/kv/kvserver/asim`).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from math import isfinite
from typing import Annotated, Any, Final, TypeAlias, assert_never

import msgspec
import numpy as np
from msgspec import Meta

from pulsar_barycenter.config.broker_conf import ConfigError, with_overrides
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.load.snapshot.load_snapshot import Floats
from pulsar_barycenter.naming.counted import count_of
from pulsar_barycenter.replay.capacity import Capacity
from pulsar_barycenter.replay.delivery import Delivery
from pulsar_barycenter.replay.errors import ReplayInputError
from pulsar_barycenter.replay.events import (
    BrokerAdded,
    BrokerCrashed,
    BrokerRemoved,
    BrokerSlowed,
    Event,
    LeaderLost,
    ReportsLost,
    SettingChanged,
)
from pulsar_barycenter.replay.measures import MEASURES, Measures, measure
from pulsar_barycenter.replay.outcome import Outcome
from pulsar_barycenter.replay.scenario import COMMON, MINUTE_MS, Setup, balanced, minutes, of_rates, rate_of_usage
from pulsar_barycenter.replay.scenario_mistakes import in_words
from pulsar_barycenter.replay.simulator import Cluster
from pulsar_barycenter.replay.synthetic.demand import START_MS, broker_names
from pulsar_barycenter.replay.synthetic.shapes import Distribution, daily_swing, drawn_sizes, drift

MOST_BROKERS: Final = 1_000
MOST_BUNDLES: Final = 100_000
MOST_MINUTES: Final = 7 * 1_440
MOST_CELLS: Final = 50_000_000
"""The maximum number of minutes times bundles."""
MOST_EVENTS: Final = 10_000
MOST_BYTES: Final = 1 << 20
"""The maximum size of a file."""

_Share: TypeAlias = Annotated[float, Meta(ge=0, le=1)]
_Minute: TypeAlias = Annotated[float, Meta(ge=0, le=MOST_MINUTES)]
_Minutes: TypeAlias = Annotated[int, Meta(ge=1, le=MOST_MINUTES)]
_Number: TypeAlias = Annotated[int, Meta(ge=1, le=MOST_BROKERS)]
_Cores: TypeAlias = Annotated[float, Meta(gt=0, le=4_096)]


class Placed(StrEnum):
    """The owners of bundles at the start of a scenario."""

    BALANCED = "balanced"
    """Evenly by their load in the first hour."""
    SKEWED = "skewed"
    """Half of the bundles on the first broker, half of the rest on the second, and so on."""
    ONE_BROKER = "one-broker"
    """All on the first broker."""


class _Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A table of a scenario file (TOML). Keys that the class does not name are refused."""


class Load(_Part, frozen=True):
    """The load of a scenario file. `usage` is the mean usage (a fraction) that the brokers at the start have if the
    load is balanced. `noise` and `drift` are standard deviations of the logarithm of a bundle's load: `noise` of
    changes that differ from minute to minute, `drift` of slow changes, which last about three hours. `swing` is the
    amplitude of a daily swing; each bundle has its peak at another time of the day.
    """

    bundles: Annotated[int, Meta(ge=1, le=MOST_BUNDLES)]
    usage: Annotated[float, Meta(gt=0.02, le=4)] = 0.45
    sizes: Distribution = Distribution.LOGNORMAL
    noise: Annotated[float, Meta(ge=0, le=2)] = 0.05
    drift: Annotated[float, Meta(ge=0, le=2)] = 0.0
    swing: Annotated[float, Meta(ge=0, le=1)] = 0.0
    placed: Placed = Placed.BALANCED


class Arrivals(_Part, frozen=True):
    """How load reports reach the leader: the shares (0 to 1) of reports that are late, lost, failed or doubled, and the
    longest delay in minutes. `replay.delivery.Delivery` explains them.
    """

    late: _Share = 0.0
    lost: _Share = 0.0
    failed: _Share = 0.0
    doubled: _Share = 0.0
    minutes: Annotated[float, Meta(gt=0, le=60)] = 5.0


class _AtMinute(_Part, tag_field="event", frozen=True):
    minute: _Minute


class Adds(_AtMinute, tag="broker-added", frozen=True):
    broker: _Number
    cores: _Cores = 8.0


class Removes(_AtMinute, tag="broker-removed", frozen=True):
    broker: _Number


class Crashes(_AtMinute, tag="broker-crashed", frozen=True):
    broker: _Number


class Slows(_AtMinute, tag="broker-slowed", frozen=True):
    broker: _Number
    factor: Annotated[float, Meta(gt=0, lt=1e6)]


class Mutes(_AtMinute, tag="reports-lost", frozen=True):
    broker: _Number
    minutes: _Minutes


class LosesLeader(_AtMinute, tag="leader-lost", frozen=True):
    minutes: _Minutes = 1


class Sets(_AtMinute, tag="setting-changed", frozen=True):
    key: str
    value: str


class Grows(_AtMinute, tag="load-changed", frozen=True):
    """An event: from its minute on, the bundles that the broker with the number `broker` owns at the start have
    `factor` times their load.
    """

    broker: _Number
    factor: Annotated[float, Meta(ge=0, le=1e3)]


Happens: TypeAlias = Adds | Removes | Crashes | Slows | Mutes | LosesLeader | Sets | Grows


class Balance(_Part, frozen=True):
    """An expectation: in each of the last `minutes` minutes, the usage of the most loaded broker is at most `at_most`
    times the mean usage.
    """

    at_most: Annotated[float, Meta(ge=1, le=1e3)]
    minutes: _Minutes = 10


class Steady(_Part, frozen=True):
    """An expectation: in the last `minutes` minutes, the usage of a broker is never more than `at_most` (a fraction) of
    its own mean usage away from that mean. Brokers that are in the cluster only in some of these minutes are not
    checked.
    """

    at_most: Annotated[float, Meta(ge=0, le=1e3)]
    minutes: _Minutes = 10


class Conforms(_Part, frozen=True):
    """An expectation: in each of the last `minutes` minutes, every bundle with traffic has a broker."""

    minutes: _Minutes = 1


class Expect(_Part, frozen=True):
    """The expectations of a scenario file, at least one. `measures` maps the name of a measure (`replay.measures`) to
    its greatest allowed value.
    """

    balance: Balance | None = None
    steady: Steady | None = None
    conforms: Conforms | None = None
    measures: dict[str, float] = {}


class ScenarioFile(_Part, frozen=True):
    """The content of a scenario file. `cores` has the cores of each broker at the start; if there are fewer values than
    brokers, they are repeated in their order.
    """

    about: Annotated[str, Meta(min_length=1, max_length=1_000)]
    brokers: _Number
    load: Load
    expect: Expect
    minutes: _Minutes = 120
    cores: Annotated[tuple[_Cores, ...], Meta(min_length=1, max_length=MOST_BROKERS)] = (8.0,)
    failing_unloads: _Share = 0.0
    reports: Arrivals = Arrivals()
    settings: dict[str, str] = {}
    events: Annotated[tuple[Happens, ...], Meta(max_length=MOST_EVENTS)] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of checking an expectation: `holds` is whether it is met, `text` a sentence that says so, with the
    compared values.
    """

    holds: bool
    text: str


def scenario_of(name: str, content: bytes) -> ScenarioFile:
    """Return the scenario that `content`, a TOML file, describes. `name` is the file's name for messages.

    Raises:
        ReplayInputError: the file is not a scenario; the message says what is wrong in it.
    """
    if len(content) > MOST_BYTES:
        raise ReplayInputError(
            f"{name} has {count_of(len(content), 'byte')}; a scenario has at most {MOST_BYTES}. Give a smaller file"
        )
    try:
        found = msgspec.toml.decode(content, type=ScenarioFile)
    except msgspec.ValidationError as error:
        wrong = in_words(error, ScenarioFile, msgspec.toml.decode(content))
        raise ReplayInputError(f"{name} is not a scenario: {wrong}. docs/replay.md has the keys") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ReplayInputError(f"{name} is not a scenario: {error}. docs/replay.md has the keys") from None
    problem = _problem(found)
    if problem:
        raise ReplayInputError(f"{name}: {problem}")
    try:
        config = with_overrides(BrokerConfig(), {**COMMON, **found.settings})
        for each in found.events:
            if isinstance(each, Sets):
                with_overrides(config, {each.key: each.value})
        delivery_of(found)
    except (ConfigError, ReplayInputError) as error:
        raise ReplayInputError(f"{name}: {error}") from None
    return found


def _problem(found: ScenarioFile) -> str:
    """Return a text that says which values of a scenario file contradict each other, and what to do; "" if there are
    none.
    """
    expect = found.expect
    if expect == Expect():
        return "[expect] is empty; give balance, steady, conforms or measures"
    known = {each.name for each in MEASURES} - _NOT_NUMBERS
    unknown = sorted(expect.measures.keys() - known)
    if unknown:
        return f"expect.measures.{unknown[0]} is not a measure with one number; there are {', '.join(sorted(known))}"
    endless = sorted(name for name, most in expect.measures.items() if not isfinite(most))
    if endless:
        return f"expect.measures.{endless[0]} is {expect.measures[endless[0]]}; give a finite number"
    if found.minutes * found.load.bundles > MOST_CELLS:
        return (
            f"{count_of(found.minutes, 'minute')} × {count_of(found.load.bundles, 'bundle')} are more than"
            f" {MOST_CELLS:,}; give fewer"
        )
    for key, each in (("balance", expect.balance), ("steady", expect.steady), ("conforms", expect.conforms)):
        if each is not None and each.minutes > found.minutes:
            return f"expect.{key}.minutes is {each.minutes}, but the run has {count_of(found.minutes, 'minute')}"
    late = [each for each in found.events if each.minute >= found.minutes]
    if late:
        return f"an event is at minute {late[0].minute:g}, but the run has {count_of(found.minutes, 'minute')}"
    return _problem_of_brokers(found)


def _problem_of_brokers(found: ScenarioFile) -> str:
    there = set(range(1, found.brokers + 1))
    for each in sorted(found.events, key=lambda event: event.minute):
        number = None if isinstance(each, LosesLeader | Sets) else each.broker
        if isinstance(each, Adds) and number in there:
            return f"broker {number} is added at minute {each.minute:g}, but is there already; give another number"
        if isinstance(each, Grows) and each.broker > found.brokers:
            return (
                f"the load of broker {number} changes, but {count_of(found.brokers, 'broker')} are there at the start;"
                " give one of these"
            )
        if number is not None and not isinstance(each, Adds | Grows) and number not in there:
            return f"broker {number} is not in the cluster at minute {each.minute:g}; give one that is"
        if isinstance(each, Adds):
            there.add(each.broker)
        elif isinstance(each, Removes | Crashes):
            there.discard(each.broker)
    return ""


_NOT_NUMBERS: Final = {"even_after_s", "last_unload_s"}


# ---- the run ----


def delivery_of(found: ScenarioFile) -> Delivery:
    """Return which load reports are late, lost, failed or doubled in this scenario.

    Raises:
        ReplayInputError: the shares are more than 1 together.
    """
    reports = found.reports
    longest_ms = max(1, round(reports.minutes * MINUTE_MS))
    return Delivery(reports.late, reports.lost, reports.failed, reports.doubled, longest_ms)


def setup_of(found: ScenarioFile, seed: int) -> Setup:
    """Return the input of a replay of this scenario. Loads are random, drawn with `seed`."""
    names = broker_names(max([found.brokers, *(each.broker for each in found.events if isinstance(each, Adds))]))
    at_start = names[: found.brokers]
    cores = {name: found.cores[place % len(found.cores)] for place, name in enumerate(at_start)}
    rng = np.random.default_rng([seed, 0x5CE])
    rates = _factors(found, rng) * _sizes(found.load, rng)
    wanted = sum(rate_of_usage(found.load.usage, each) for each in cores.values())
    rates *= wanted / float(rates.sum(axis=1).mean())
    owners = _owners(found.load, rates, at_start, cores)
    for each in found.events:
        if isinstance(each, Grows):
            rates[int(each.minute) :, np.array(owners) == names[each.broker - 1]] *= each.factor
    cluster = Cluster({name: Capacity(cores=cores[name]) for name in at_start}, failing=found.failing_unloads)
    events = tuple(_event(each, names) for each in found.events if not isinstance(each, Grows))
    return Setup(of_rates(rates, owners), cluster, events, found.settings, delivery_of(found))


def _sizes(load: Load, rng: np.random.Generator) -> Floats:
    drawn = drawn_sizes(load.sizes, load.bundles, rng)
    found: Floats = drawn / drawn.sum()
    return found


def _factors(found: ScenarioFile, rng: np.random.Generator) -> Floats:
    """Return the factors of the bundles' loads: one row per minute, one column per bundle. They vary around 1 by noise,
    drift and the daily swing, as `found.load` says.
    """
    load, shape = found.load, (found.minutes, found.load.bundles)
    factors: Floats = rng.lognormal(0.0, load.noise, shape) if load.noise else np.ones(shape)
    if load.drift:
        factors *= drift(rng, *shape, load.drift)
    if load.swing:
        at_s = np.arange(found.minutes, dtype=np.float64)[:, None] * 60.0
        factors *= daily_swing(at_s, load.swing, rng.uniform(0, 2 * np.pi, load.bundles))
    return factors


def _owners(load: Load, rates: Floats, brokers: Iterable[str], cores: dict[str, float]) -> tuple[str, ...]:
    names = tuple(brokers)
    match load.placed:
        case Placed.BALANCED:
            return balanced(rates[:60].mean(axis=0), names, cores)
        case Placed.ONE_BROKER:
            return (names[0],) * load.bundles
        case Placed.SKEWED:
            left, owners = load.bundles, list[str]()
            for name in names:
                count = -(-left // 2) if name != names[-1] else left
                owners += [name] * count
                left -= count
            return tuple(owners)
    assert_never(load.placed)


def _event(each: Happens, names: tuple[str, ...]) -> Event:
    at_ms = minutes(each.minute)
    match each:
        case Adds():
            return BrokerAdded(at_ms, names[each.broker - 1], Capacity(cores=each.cores))
        case Removes():
            return BrokerRemoved(at_ms, names[each.broker - 1])
        case Crashes():
            return BrokerCrashed(at_ms, names[each.broker - 1])
        case Slows():
            return BrokerSlowed(at_ms, names[each.broker - 1], each.factor)
        case Mutes():
            return ReportsLost(at_ms, names[each.broker - 1], minutes(each.minute + each.minutes))
        case LosesLeader():
            return LeaderLost(at_ms, minutes(each.minute + each.minutes))
        case Sets():
            return SettingChanged(at_ms, each.key, each.value)
    raise ReplayInputError(f"the scenario event {each} changes the load and not the cluster")


# ---- what is expected ----


def verdicts(expect: Expect, outcome: Outcome) -> list[Verdict]:
    """Return a verdict for each expectation, in the order of `Expect`."""
    found = []
    if expect.balance is not None:
        found.append(_balance(expect.balance, outcome))
    if expect.steady is not None:
        found.append(_steady(expect.steady, outcome))
    if expect.conforms is not None:
        found.append(_conforms(expect.conforms, outcome))
    if expect.measures:
        measured = measure(outcome)
        found += [_measure(name, most, measured) for name, most in expect.measures.items()]
    return found


def _balance(expected: Balance, outcome: Outcome) -> Verdict:
    live = outcome.live[-expected.minutes :]
    usage = np.where(live, outcome.usage[-expected.minutes :], 0.0)
    mean = usage.sum(axis=1) / np.maximum(live.sum(axis=1), 1)
    ratio = np.divide(usage.max(axis=1), mean, out=np.ones(len(mean)), where=mean > 0)
    worst = int(ratio.argmax())
    broker = outcome.brokers[int(usage[worst].argmax())]
    text = (
        f"{broker} had {ratio[worst]:.3g} times the mean usage in {_minute(outcome, worst - expected.minutes)};"
        f" at most {expected.at_most:g} is allowed in {_last(expected.minutes)}"
    )
    return Verdict(bool(ratio[worst] <= expected.at_most), f"balance: {text}")


def _steady(expected: Steady, outcome: Outcome) -> Verdict:
    always = outcome.live[-expected.minutes :].all(axis=0)
    usage = outcome.usage[-expected.minutes :]
    mean = usage.mean(axis=0)
    off = np.where(always & (mean > 0), np.abs(usage - mean).max(axis=0) / np.where(mean > 0, mean, 1.0), 0.0)
    worst = int(off.argmax())
    text = (
        f"the usage of {outcome.brokers[worst]} was up to {off[worst]:.3g} of its mean away from that mean;"
        f" at most {expected.at_most:g} is allowed in {_last(expected.minutes)}"
    )
    return Verdict(bool(off[worst] <= expected.at_most), f"steady: {text}")


def _conforms(expected: Conforms, outcome: Outcome) -> Verdict:
    unserved = outcome.unserved[-expected.minutes :]
    worst = int(unserved.argmax())
    if unserved[worst] <= 0:
        return Verdict(True, f"conforms: every bundle with traffic had a broker in {_last(expected.minutes)}")
    text = (
        f"bundles with {unserved[worst]:.3g} msg/s had no broker in {_minute(outcome, worst - expected.minutes)};"
        f" none is allowed in {_last(expected.minutes)}"
    )
    return Verdict(False, f"conforms: {text}")


def _measure(name: str, most: float, measured: Measures) -> Verdict:
    value: Any = getattr(measured, name)
    return Verdict(bool(value <= most), f"{name}: it is {value:.4g}; at most {most:g} is allowed")


def _last(number: int) -> str:
    return "the last minute" if number == 1 else f"the last {count_of(number, 'minute')}"


def _minute(outcome: Outcome, place: int) -> str:
    return f"minute {(int(outcome.at_ms[place]) - START_MS) // MINUTE_MS}"
