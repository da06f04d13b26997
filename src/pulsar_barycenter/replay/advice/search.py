"""Selects the configurations to run next, and the best of those that were run. It is pure: its caller runs them.

1. Every strategy runs with today's settings.
2. The search climbs from today's configuration and from the best strategies, `CLIMBED` in total: it takes the best of
   all configurations that have one setting a notch higher or lower, until none is better, at most `MOST_MOVES` times.
3. The advised configuration runs with each of its settings a notch higher and lower, and with each back at today's
   value. This shows the effect of each setting.

The search uses only the parts used for choosing.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from pulsar_barycenter.config.broker_conf import with_overrides
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.load.managers import MANAGER_KEY, ManagerKind, manager_in_force
from pulsar_barycenter.load.strategies import PLACEMENT_KEY, SHEDDING_KEY
from pulsar_barycenter.replay.advice.candidate_settings import (
    SWITCHES,
    Knob,
    changes_of,
    identity,
    neighbours,
    start,
    text_of,
    with_setting,
)
from pulsar_barycenter.replay.advice.parts import Trial
from pulsar_barycenter.replay.advice.weighing import Gain, Weighed, Weights, gain, least, weighed
from pulsar_barycenter.replay.errors import ReplayInputError
from pulsar_barycenter.replay.grid import CONFIGURED, Scenario, scenarios

CLIMBED: Final = 3
MOST_MOVES: Final = 5
LEAST_SEEDS: Final = 2
_CHOICE: Final = frozenset({MANAGER_KEY, SHEDDING_KEY, PLACEMENT_KEY})

TrialsOfScenarios = Mapping[str, Sequence[Trial]]
"""The runs of a configuration, one per seed, in the order of the seeds; keyed by its scenario's name with seed 0."""


@dataclass(frozen=True)
class Question:
    """The input of a search: `base` is the present configuration as texts, `strategies` are the other strategies to
    try, `given` are the settings that the command line varies, `weights` are the constants of the cost, and `whole` is
    the first step (inclusive) and the end (exclusive) of the history.
    """

    base: Mapping[str, str]
    strategies: tuple[str, ...]
    given: tuple[Knob, ...]
    weights: Weights
    whole: tuple[int, int]

    @property
    def today(self) -> Scenario:
        return msgspec.structs.replace(start(CONFIGURED, (), self.base), period=self.whole)

    @property
    def today_config(self) -> BrokerConfig:
        return with_overrides(BrokerConfig(), self.base)

    def starts(self) -> list[Scenario]:
        """Return the scenarios to run first: the present configuration, and each other strategy with the present
        settings. If several of them make the same decisions, only the first is returned.
        """
        found = {identity(self.today.config(self.base)): self.today}
        for strategy in self.strategies:
            scenario = msgspec.structs.replace(start(strategy, self.given, self.base), period=self.whole)
            found.setdefault(identity(scenario.config(self.base)), scenario)
        return list(found.values())

    def around(self, scenario: Scenario) -> list[Scenario]:
        """Return the configurations that differ from `scenario` in one setting, which has the next lower or next higher
        of the values to try. Empty if the scenario never balances the load.
        """
        return [] if self.is_idle(scenario) else neighbours(scenario, self.given, self.base)

    def changes(self, scenario: Scenario) -> dict[str, tuple[str, str]]:
        return changes_of(self.today_config, scenario.config(self.base))

    def weigh(self, scenario: Scenario, known: TrialsOfScenarios) -> Weighed:
        return weighed(self.weights, known[scenario.name], len(self.changes(scenario)))

    def is_idle(self, scenario: Scenario) -> bool:
        """Return whether the scenario never balances the load (the no-op load manager). Such a scenario is replayed for
        comparison. It is advised only if it is the present configuration.
        """
        return manager_in_force(scenario.config(self.base)) is ManagerKind.NOOP

    def gain(self, known: TrialsOfScenarios, scenario: Scenario, *, over: Scenario | None = None) -> Gain:
        """Return the gain of the configuration `scenario` over the configuration `over` (None: the present one) on the
        parts used for choosing. `known` has the replays of both.
        """
        before = known[(over or self.today).name]
        return gain(self.weights.choosing(before), self.weights.choosing(known[scenario.name]))

    def gain_held_out(self, known: TrialsOfScenarios, scenario: Scenario) -> Gain:
        """Return the gain of the configuration `scenario` over the present one on the held-out parts. `known` has the
        replays of both.
        """
        before = known[self.today.name]
        return gain(self.weights.telling(before), self.weights.telling(known[scenario.name]))


def checked(question: Question, sets: Sequence[str]) -> list[Scenario]:
    """Check that all configurations that the search can reach in one step can be run. Return the scenarios to run
    first. `sets` are texts of the form key=v1,v2 from the command line.

    Raises:
        ReplayInputError: there is no other configuration than the present one, a key is unknown, or there are too many
            configurations.
        StrategyError: a strategy does not exist.
        ConfigError: a value is not allowed.
    """
    scenarios(question.strategies or [CONFIGURED], sets, [0], [question.whole], question.base)
    starts = question.starts()
    for each in starts:
        for other in question.around(each):
            other.config(question.base)
    if len([each for each in starts if each == question.today or not question.is_idle(each)]) < 2 and not any(
        question.around(each) for each in starts
    ):
        raise ReplayInputError(
            "there is nothing to choose from: --strategy and --set leave only today's configuration; name other"
            " strategies, or values to vary with --set key=v1,v2"
        )
    return starts


def knobs_given(sets: Sequence[str]) -> tuple[Knob, ...]:
    """Return the settings to vary that the texts `sets` of the command line give, each of the form key=v1,v2.

    Raises:
        ReplayInputError: a text does not have that form, its key is unknown, or the key selects a strategy.
        ConfigError: a value is not allowed.
    """
    for text in sets:
        key = text.partition("=")[0].strip()
        if key in _CHOICE:
            raise ReplayInputError(f"--set {text}: {key} is a key that --strategy sets; leave it out")
    scenarios([CONFIGURED], sets, [0], [(0, 1)], {})
    found: dict[str, Knob] = {}
    for text in sets:
        key, _, values = text.partition("=")
        key = key.strip()
        config = [with_overrides(BrokerConfig(), {key: value.strip()}) for value in values.split(",")]
        found[key] = Knob(key, tuple(dict.fromkeys(text_of(each, key) for each in config)), is_given=True)
    return tuple(found.values())


def wanted(question: Question, known: TrialsOfScenarios) -> list[Scenario]:
    """Return the configurations that the caller has to replay next, with all seeds; each is a scenario with seed 0.
    Return an empty list if `known` has all replays that the advice needs.
    """
    missing = _missing(question.starts(), known)
    if missing:
        return missing
    _, missing = _searched(question, known)
    if missing:
        return missing
    best = candidate(question, known)
    return _missing([*question.around(best), *set_back(question, best).values()], known)


def candidate(question: Question, known: TrialsOfScenarios) -> Scenario:
    """Return the configuration to advise, by the rule in docs/advise.md: the best of those whose gain over the present
    configuration on the parts used for choosing is large enough (`Gain.counts`). If there is none, return the present
    one.

    Only configurations that the search went through are considered, not those that were replayed only to assess a
    single setting.
    """
    seen, _ = _searched(question, known)
    found = [each for each in seen if not question.is_idle(each) and question.gain(known, each).counts]
    return least(found, lambda each: question.weigh(each, known)) if found else question.today


def set_back(question: Question, scenario: Scenario) -> dict[str, Scenario]:
    """Return, for each key that the scenario sets, the scenario with the present value of this key. The keys that
    switch balancing on are left out.
    """
    today = question.today_config
    keys_set = [key for key in scenario.settings if key not in SWITCHES]
    return {key: with_setting(scenario, key, text_of(today, key), today) for key in keys_set}


def _searched(question: Question, known: TrialsOfScenarios) -> tuple[list[Scenario], list[Scenario]]:
    """Return the configurations that the search went through so far, and those that must be replayed before it can
    continue. The second list is empty if the search is complete.
    """
    starts = question.starts()
    others = [each for each in starts if each != question.today and not question.is_idle(each)]
    others.sort(key=lambda each: _order(question.weigh(each, known)))
    seen, missing = list(starts), []
    for begin in [question.today, *others[: CLIMBED - 1]]:
        at = begin
        for _ in range(MOST_MOVES):
            around = question.around(at)
            lacking = _missing(around, known)
            missing += lacking
            if lacking:
                break
            seen += around
            best = least([at, *around], lambda each: question.weigh(each, known))
            if best == at:
                break
            at = best
    return list({each.name: each for each in seen}.values()), _missing(missing, known)


def _order(found: Weighed) -> tuple[float, float, int, str]:
    return found.cost, found.unloads, found.changed_keys, found.title


def _missing(found: Iterable[Scenario], known: TrialsOfScenarios) -> list[Scenario]:
    return list({each.name: each for each in found if each.name not in known}.values())
