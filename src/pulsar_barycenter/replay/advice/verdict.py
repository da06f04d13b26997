"""The verdict: the advice that follows from all runs, and the evidence for it."""

from collections.abc import Sequence
from statistics import fmean
from typing import Any, Final

from pulsar_barycenter.config.broker_conf import keys
from pulsar_barycenter.load.managers import MANAGER_KEY, PULSAR_PACKAGE, StrategyError
from pulsar_barycenter.load.strategies import PLACEMENT_KEY, SHEDDING_KEY, check_change
from pulsar_barycenter.replay.advice.candidate_settings import changes_of, in_words
from pulsar_barycenter.replay.advice.document import (
    Advice,
    AdviceVerdict,
    Change,
    Configuration,
    Difference,
    Notch,
    Observed,
    OfSeed,
    Period,
    Rule,
    SettlingCost,
    Weighing,
)
from pulsar_barycenter.replay.advice.finding import AdviceFinding
from pulsar_barycenter.replay.advice.likeness import compared, unlikeness
from pulsar_barycenter.replay.advice.parts import Parts, Trial
from pulsar_barycenter.replay.advice.search import Question, TrialsOfScenarios, candidate, set_back
from pulsar_barycenter.replay.advice.weighing import LEAST_GAIN, NOISES, TIE, Gain, least
from pulsar_barycenter.replay.demand import Demand
from pulsar_barycenter.replay.grid import Scenario
from pulsar_barycenter.replay.measures import MEASURES, Measures

WELL_BELOW: Final = 10.0
"""Up to this cost, a cluster is called well set up if no other configuration is better."""
_DAY_MS: Final = 86_400_000


def advice_of(
    question: Question,
    known: TrialsOfScenarios,
    parts: Parts,
    demand: Demand,
    *,
    observed: Observed | None = None,
    findings: Sequence[AdviceFinding] = (),
    warnings: Sequence[str] = (),
) -> Advice:
    """Return the advice after the search is complete, that is, when `search.wanted` returns an empty list.

    `known` has the replays of all configurations. `observed` is what happened in the recorded cluster; None: it is not
    compared. `findings` and `warnings` become parts of the advice.
    """
    teller = _Teller(question, known)
    found = candidate(question, known)
    if found == question.today:
        verdict = AdviceVerdict.KEEP
        others = [each for each in teller.all if each != question.today and not question.is_idle(each)]
        best = least(others, lambda each: question.weigh(each, known)) if others else None
    else:
        best = found
        verdict = AdviceVerdict.CHANGE if question.gain_held_out(known, found).counts else AdviceVerdict.UNCONFIRMED
    changes = teller.changes(found) if verdict is AdviceVerdict.CHANGE else []
    judged = found if verdict is AdviceVerdict.CHANGE else question.today
    idle = next((each for each in teller.all if question.is_idle(each) and each != question.today), None)
    differences = teller.differences(found) if verdict is AdviceVerdict.CHANGE else []
    replays = [trial.whole for trial in known[question.today.name]]
    values = compared(observed, replays) if observed is not None else []
    unlike = unlikeness(values)
    return Advice(
        verdict=verdict,
        sentence=teller.sentence(verdict, best, len(findings), _hours(demand, parts.held_out)),
        rule=Rule(price=question.weights.price, least_gain=LEAST_GAIN, noises=NOISES, tie=TIE),
        settling=_period(demand, *parts.settling),
        choosing=_period(demand, parts.choosing[0][0], parts.choosing[-1][1]),
        held_out=_period(demand, *parts.held_out),
        seeds=[trial.scenario.seed for trial in known[question.today.name]],
        tried=len(teller.all) - 1,
        today=teller.configuration(question.today),
        advised=teller.configuration(found) if verdict is AdviceVerdict.CHANGE else None,
        best=teller.configuration(best) if best is not None else None,
        without_balancing=teller.configuration(idle) if idle is not None else None,
        changes=changes,
        worse=[each for each in differences if each.advised > each.today],
        better=[each for each in differences if each.advised < each.today],
        sensitivity=teller.notches(judged, verdict),
        by_seed=teller.by_seed(best) if best is not None else [],
        observed=values,
        findings=list(findings),
        warnings=[*filter(None, [unlike]), *_warnings_of_length(demand, parts), *warnings],
        configurations=sorted(
            (teller.configuration(each) for each in teller.all), key=lambda each: (each.choosing.cost, each.title)
        ),
    )


class _Teller:
    def __init__(self, question: Question, known: TrialsOfScenarios) -> None:
        self._question, self._known = question, known
        self.all = sorted((self._plain(trials[0]) for trials in known.values()), key=lambda each: each.title)
        self._words = in_words(question.today.config(question.base))

    def _plain(self, trial: Trial) -> Scenario:
        scenario = trial.scenario
        return Scenario(strategy=scenario.strategy, settings=scenario.settings, period=scenario.period)

    def _config_words(self, scenario: Scenario) -> str:
        return in_words(scenario.config(self._question.base))

    def change(self, scenario: Scenario) -> str:
        """Return the begin of a sentence that recommends the configuration of `scenario`, such as "Change to ..."."""
        if self._config_words(scenario) == self._words and scenario.settings:
            settings = ", ".join(f"{key}={text}" for key, text in scenario.settings.items())
            return f"Set {settings} and keep {self._words}"
        return f"Change to {self.name(scenario)}"

    def name(self, scenario: Scenario) -> str:
        """Return the words by which a sentence names the configuration of `scenario`: its strategies, and its settings
        that differ from the present ones.
        """
        words = self._config_words(scenario)
        settings = ", ".join(f"{key}={text}" for key, text in scenario.settings.items())
        return (
            f"{words} with {settings}"
            if settings and " with " not in words
            else f"{words}{', ' * bool(settings)}{settings}"
        )

    def configuration(self, scenario: Scenario) -> Configuration:
        known, weights = self._known[scenario.name], self._question.weights
        return Configuration(
            title=scenario.title,
            words=self._config_words(scenario),
            settings=dict(scenario.settings),
            choosing=self._weighing([trial.choosing for trial in known], weights.choosing_hours),
            held_out=self._weighing([trial.telling for trial in known], weights.telling_hours),
            measures=_means([trial.held_out for trial in known], sum(weights.telling_hours)),
            going_over=SettlingCost(
                unloads=fmean(trial.settling.unloads for trial in known),
                sessions_disturbed=fmean(trial.settling.sessions_disturbed for trial in known),
                regret=fmean(trial.settling.regret for trial in known),
            ),
            gain=self._question.gain(self._known, scenario),
            gain_held_out=self._question.gain_held_out(self._known, scenario),
        )

    def _weighing(self, runs: Sequence[Sequence[Measures]], hours: Sequence[float]) -> Weighing:
        weights = self._question.weights
        every = [(each, of) for run in runs for each, of in zip(run, hours, strict=True)]
        return Weighing(
            cost=fmean(weights.cost(each, of) for each, of in every),
            regret=fmean(each.regret for each, _ in every),
            disturbed_a_day=fmean(weights.disturbed_a_day(each, of) for each, of in every),
            unloads_a_day=fmean(each.unloads * 24 / of for each, of in every),
        )

    def changes(self, advised: Scenario) -> list[Change]:
        question = self._question
        before, after = self.configuration(question.today), self.configuration(advised)
        back = set_back(question, advised)
        switch = (
            f"{self._config_words(advised)} instead of {self._words}: regret {100 * before.choosing.regret:.1f} % to"
            f" {100 * after.choosing.regret:.1f} % of a broker, {_disturbed(before.choosing, after.choosing)}"
        )
        found = []
        for key, (today, text) in question.changes(advised).items():
            why = switch
            if key in back:
                worth = question.gain(self._known, advised, over=back[key])
                what = "it gains" if worth.points >= 0 else "it loses"
                why = f"{what} {_points(worth)} if all other settings are as advised"
            elif key not in {MANAGER_KEY, SHEDDING_KEY, PLACEMENT_KEY}:
                why = "without it no strategy balances"
            elif not text.startswith(PULSAR_PACKAGE):
                why = f"{switch}; only Barycenter's brokers have it"
            found.append(Change(key=key, today=today, advised=text, why=why, is_dynamic=self._is_dynamic(key, advised)))
        return found

    def _is_dynamic(self, key: str, advised: Scenario) -> bool:
        if key == MANAGER_KEY:
            try:
                check_change(self._question.today_config, advised.config(self._question.base))
            except StrategyError:
                return False
        return keys()[key].dynamic

    def differences(self, advised: Scenario) -> list[Difference]:
        before, after = self.configuration(self._question.today), self.configuration(advised)
        return [
            Difference(
                measure=each.name,
                title=each.title,
                unit=each.unit if each.name != "even_after_s" else "s",
                today=before.measures[each.name],
                advised=after.measures[each.name],
            )
            for each in MEASURES
            if abs(before.measures[each.name] - after.measures[each.name]) > 1e-9 * abs(before.measures[each.name])
        ]

    def notches(self, judged: Scenario, verdict: AdviceVerdict) -> list[Notch]:
        question = self._question
        config = judged.config(question.base)
        found = []
        for other in question.around(judged):
            if other.name not in self._known:
                continue
            of = other.config(question.base)
            ((key, (now, value)),) = changes_of(config, of).items()
            chosen, held = question.gain(self._known, other), question.gain_held_out(self._known, other)
            stands = (chosen.counts and held.counts) is (verdict is AdviceVerdict.CHANGE)
            found.append(Notch(key=key, value=value, instead_of=now, gain=chosen, gain_held_out=held, stands=stands))
        return found

    def by_seed(self, scenario: Scenario) -> list[OfSeed]:
        weights = self._question.weights
        before = weights.telling(self._known[self._question.today.name])
        after = weights.telling(self._known[scenario.name])
        seeds = [trial.scenario.seed for trial in self._known[scenario.name]]
        saved = (before - after).mean(axis=1).tolist()
        return [OfSeed(seed=seed, gain=each) for seed, each in zip(seeds, saved, strict=True)]

    def sentence(self, verdict: AdviceVerdict, best: Scenario | None, findings: int, hours: float) -> str:
        today = self.configuration(self._question.today)
        also = f" {_things(findings)} listed below that balancing cannot solve." if findings else ""
        if best is None:
            return f"Keep today's configuration ({self._words}): no other was tried.{also}"
        other = self.configuration(best)
        held = f"on {_span(hours)} not used for choosing"
        regrets = f"{100 * other.held_out.regret:.1f} % of a broker instead of {100 * today.held_out.regret:.1f} %"
        match verdict:
            case AdviceVerdict.CHANGE:
                return (
                    f"{self.change(best)}: {held}, the fullest broker would have been {regrets} fuller than necessary,"
                    f" and {_would_be_disturbed(today.held_out, other.held_out)}.{also}"
                )
            case AdviceVerdict.UNCONFIRMED:
                return (
                    f"Keep today's configuration ({self._words}): {self.name(best)} looked better by"
                    f" {_points(other.gain)}, but {held} it was {_held(other.gain_held_out)}.{also}"
                )
        saves = f"save {_points(other.gain)}" if other.gain.points >= 0 else f"cost {_points(other.gain)} more"
        count = len(self.all) - 1
        many = f"none of {count} other configurations is" if count > 1 else "the only other configuration tried is not"
        tried = f"{many} better by more than noise; the best other one, {self.name(best)}, would {saves}"
        if today.choosing.cost <= WELL_BELOW and today.held_out.cost <= WELL_BELOW:
            return f"This cluster is well set up ({self._words}): {tried}.{also}"
        return (
            f"Keep today's configuration ({self._words}), although the fullest broker was"
            f" {100 * today.held_out.regret:.1f} % of a broker fuller than necessary, and the average client"
            f" was disturbed {today.held_out.disturbed_a_day:.2g} times a day: {tried}.{also}"
        )


def _disturbed(today: Weighing, advised: Weighing) -> str:
    """Return a part of a sentence: how often per day the average client is disturbed under the present configuration
    and under the advised one.
    """
    was, then = f"{today.disturbed_a_day:.2g}", f"{advised.disturbed_a_day:.2g}"
    if was != then:
        return f"clients disturbed {was} to {then} times a day"
    return "no client disturbed with either" if then == "0" else f"clients disturbed {then} times a day with either"


def _would_be_disturbed(today: Weighing, advised: Weighing) -> str:
    was, then = f"{today.disturbed_a_day:.2g}", f"{advised.disturbed_a_day:.2g}"
    if was != then:
        return f"the average client would have been disturbed {then} times a day instead of {was}"
    if then == "0":
        return "no client would have been disturbed with either configuration"
    return f"the average client would have been disturbed {then} times a day with either configuration"


def _points(found: Gain) -> str:
    return f"{abs(found.points):.2g} points (noise {found.noise:.2g})"


def _held(found: Gain) -> str:
    if found.points <= 0:
        return f"worse by {-found.points:.2g} points"
    return f"better by {_points(found)} only"


def _things(count: int) -> str:
    return "One problem is" if count == 1 else f"{count} problems are"


def _span(hours: float) -> str:
    return f"{hours / 24:.3g} days" if hours >= 48 else f"{hours:.3g} h" if hours >= 1 else f"{hours * 60:.0f} min"


def _hours(demand: Demand, steps: tuple[int, int]) -> float:
    return (steps[1] - steps[0]) * demand.step_ms / 3_600_000


def _period(demand: Demand, first: int, end: int) -> Period:
    return Period(since_ms=demand.start_ms + first * demand.step_ms, until_ms=demand.start_ms + end * demand.step_ms)


def _means(runs: Sequence[Measures], hours: float) -> dict[str, float]:
    """Return the mean of each measure over `runs`, by name. `hours` is the length of the replayed time.

    `even_after_s` has several values in a run: their sum is used, and a value None (never even) counts as the whole
    time. Other values None count as 0.
    """
    found = {}
    for each in MEASURES:
        values: list[Any] = [getattr(run, each.name) for run in runs]
        if each.name == "even_after_s":
            values = [sum(hours * 3600 if one is None else one for one in times) for times in values]
        found[each.name] = fmean(0.0 if value is None else float(value) for value in values)
    return found


def _warnings_of_length(demand: Demand, parts: Parts) -> list[str]:
    """Return warnings if the history is too short: shorter than a day, it does not show other times of the day; shorter
    than a week, it does not show other days of the week. Otherwise an empty list.
    """
    whole_ms = demand.steps * demand.step_ms
    told = _span(whole_ms / 3_600_000)
    if whole_ms < _DAY_MS:
        return [
            f"{told} of history say nothing about other times of the day: the advice is only valid for such load; ask"
            " again with a day or more"
        ]
    if whole_ms < 7 * _DAY_MS:
        return [f"{told} of history say nothing about other days of the week; ask again with a week or more"]
    return []
