"""The settings to try: the main settings of each strategy, each with a few values in ascending order.

A notch is a step from a value to the previous or the next one. The present value is inserted in its order.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from pulsar_barycenter.config.broker_conf import keys, with_overrides
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.config.key import format_value
from pulsar_barycenter.load.managers import MANAGER_KEY, ManagerKind, manager_in_force, manager_kind
from pulsar_barycenter.load.strategies import PLACEMENT_KEY, SHEDDING_KEY, Role, of_role, placer_name, shedder_name
from pulsar_barycenter.replay.grid import CONFIGURED, Scenario

SWITCHES: Final = {"loadBalancerEnabled": "true", "loadBalancerSheddingEnabled": "true"}
"""Without these, no strategy balances. If they are off at present, all other candidates switch them on."""


@dataclass(frozen=True, slots=True)
class Knob:
    """A setting that the search varies: a key of broker.conf and the values to try, in ascending order or in the order
    of the command line. `is_given`: the command line lists the values.
    """

    key: str
    values: tuple[str, ...]
    is_given: bool = False


_EVENLY: Final = Knob("loadBalancerDistributeBundlesEvenlyEnabled", ("false", "true"))

OF_SHEDDER: Final[Mapping[str, tuple[Knob, ...]]] = {
    "ThresholdShedder": (
        Knob("loadBalancerBrokerThresholdShedderPercentage", ("5", "10", "15", "20")),
        Knob("loadBalancerHistoryResourcePercentage", ("0", "0.5", "0.9")),
        Knob("loadBalancerBundleUnloadMinThroughputThreshold", ("1", "10")),
    ),
    "UniformLoadShedder": (
        Knob("loadBalancerMsgRateDifferenceShedderThreshold", ("20", "30", "50", "75")),
        Knob("maxUnloadPercentage", ("0.2", "0.5")),
        Knob("minUnloadMessage", ("100", "1000")),
    ),
    "OverloadShedder": (Knob("loadBalancerBrokerOverloadedThresholdPercentage", ("70", "80", "85", "90")),),
    "RangeThresholdShedder": (
        Knob("loadBalancerBrokerThresholdShedderPercentage", ("5", "10", "15", "20")),
        Knob("loadBalancerHistoryResourcePercentage", ("0", "0.5", "0.9")),
    ),
    "AvgShedder": (
        Knob("loadBalancerAvgShedderLowThreshold", ("5", "10", "15", "20")),
        Knob("loadBalancerAvgShedderHitCountLowThreshold", ("2", "4", "8", "16")),
        Knob("minUnloadMessage", ("100", "1000")),
    ),
    "LeastDisturbance": (
        Knob("barycenterLeastDisturbanceBandPercentage", ("3", "6", "8", "12")),
        Knob("barycenterLeastDisturbancePatienceMinutes", ("3", "6", "12")),
    ),
    "TransferShedder": (
        Knob("loadBalancerBrokerLoadTargetStd", ("0.05", "0.1", "0.15", "0.25")),
        Knob("loadBalancerSheddingConditionHitCountThreshold", ("1", "3", "8")),
        Knob("loadBalanceSheddingDelayInSeconds", ("60", "180", "600")),
    ),
}
"""The settings by the short name of the shedder. A shedder that is missing here is tried only with today's settings."""

OF_PLACER: Final[Mapping[str, tuple[Knob, ...]]] = {
    "LeastResourceUsageWithWeight": (
        Knob("loadBalancerAverageResourceUsageDifferenceThresholdPercentage", ("0", "5", "10")),
        _EVENLY,
    ),
    "LeastLongTermMessageRate": (_EVENLY,),
    "RoundRobinBrokerSelector": (),
    "AvgShedder": (_EVENLY,),
}
"""The settings by the short name of the modular load manager's placement strategy."""

OF_SIMPLE: Final = (
    Knob("loadBalancerBrokerOverloadedThresholdPercentage", ("70", "80", "85", "90")),
    Knob("loadBalancerBrokerUnderloadedThresholdPercentage", ("30", "50", "70")),
)


def knobs_of(config: BrokerConfig, given: Sequence[Knob] = ()) -> tuple[Knob, ...]:
    """Return the settings to try for the strategies of the configuration `config`. If `given` (the settings of the
    command line) is not empty, return only these.

    Raises:
        StrategyError: a strategy of the configuration does not exist.
    """
    if given:
        return tuple(given)
    match manager_in_force(config):
        case ManagerKind.NOOP:
            return ()
        case ManagerKind.SIMPLE:
            return OF_SIMPLE
        case ManagerKind.EXTENSIBLE:
            return OF_SHEDDER.get(shedder_name(config), ())
    found = {each.key: each for each in OF_PLACER.get(placer_name(config), ())}
    found |= {each.key: each for each in OF_SHEDDER.get(shedder_name(config), ())}
    return tuple(found.values())


def text_of(config: BrokerConfig, key: str) -> str:
    """Return the value of the key `key` as a text, as it is written in broker.conf. For a strategy or a load manager,
    this is its class name.
    """
    row = keys()[key]
    text = format_value(getattr(config, row.attribute))
    kind = manager_in_force(config)
    if key == MANAGER_KEY:
        return kind.class_name
    role = {SHEDDING_KEY: Role.SHEDDING, PLACEMENT_KEY: Role.PLACEMENT}.get(key)
    rows = of_role(ManagerKind.MODULAR, role) + of_role(kind, role) if role else ()
    return next((each.class_name for each in rows if text in (each.name, each.class_name)), text)


def start(strategy: str, given: Sequence[Knob], base: Mapping[str, str]) -> Scenario:
    """Return the scenario from which the search starts for a strategy: `strategy` with the present settings `base`. If
    balancing is switched off in `base`, the scenario switches it on.

    If the present value of a key in `given` is not among the values to try, the scenario has the first of these. If
    `strategy` is CONFIGURED (the strategies of `base`), the scenario changes nothing.
    """
    if strategy == CONFIGURED:
        return Scenario(strategy=strategy)
    today = with_overrides(BrokerConfig(), base)
    settings = {key: text for key, text in SWITCHES.items() if text_of(today, key) != text}
    for knob in given:
        now = text_of(today, knob.key)
        if now not in knob.values:
            settings[knob.key] = knob.values[0]
    return Scenario(strategy=strategy, settings=settings)


def neighbours(scenario: Scenario, given: Sequence[Knob], base: Mapping[str, str]) -> list[Scenario]:
    """Return the scenarios that differ from `scenario` in one setting, which has the next lower or the next higher of
    the values to try. `given` are the settings of the command line, `base` is the present configuration.

    Raises:
        StrategyError: the scenario's strategy does not exist.
    """
    config, today = scenario.config(base), with_overrides(BrokerConfig(), base)
    found = []
    for knob in knobs_of(config, given):
        now = text_of(config, knob.key)
        values = knob.values if knob.is_given else _with(knob.values, text_of(today, knob.key))
        if now not in values:
            continue
        place = values.index(now)
        others = values[max(0, place - 1) : place] + values[place + 1 : place + 2]
        found += [with_setting(scenario, knob.key, other, today) for other in others]
    return found


def with_setting(scenario: Scenario, key: str, text: str, today: BrokerConfig) -> Scenario:
    """Return the scenario with the value `text` for `key`. If this is the value in the present configuration `today`,
    the result does not mention the key.
    """
    rest = {name: value for name, value in scenario.settings.items() if name != key}
    if text_of(today, key) != text:
        rest[key] = text
    return msgspec.structs.replace(scenario, settings=dict(sorted(rest.items())))


def _with(values: tuple[str, ...], today: str) -> tuple[str, ...]:
    """Return the values to try, with the present value `today` inserted in ascending order. If `today` is already among
    them, or they are not all numbers, return `values`.
    """
    if today in values:
        return values
    try:
        return tuple(sorted((*values, today), key=float))
    except ValueError:
        return values


def changes_of(today: BrokerConfig, other: BrokerConfig) -> dict[str, tuple[str, str]]:
    """Return the keys of broker.conf whose values differ between two configurations, in the order of the documentation.
    For each key: the value in `today` and the value in `other`, as texts.
    """
    found = {key: (text_of(today, key), text_of(other, key)) for key in keys()}
    if manager_in_force(other) is ManagerKind.EXTENSIBLE is not manager_in_force(today):
        # Pulsar's extensible load manager selects its own shedder with this key, too
        rows = of_role(ManagerKind.EXTENSIBLE, Role.SHEDDING)
        name = next(each.class_name for each in rows if each.name == shedder_name(other))
        found[SHEDDING_KEY] = (found[SHEDDING_KEY][0], name)
    return {key: texts for key, texts in found.items() if texts[0] != texts[1]}


def identity(config: BrokerConfig) -> tuple[tuple[str, str], ...]:
    """Return a key that is equal for two configurations if they make the same decisions. It has the values of all
    settings; for strategies, it has those that are really used, which may differ from the configured ones.
    """
    kind = manager_in_force(config)
    found = {key: text_of(config, key) for key in keys()}
    found[MANAGER_KEY] = manager_kind(kind.class_name).value
    found[SHEDDING_KEY] = "" if kind is ManagerKind.NOOP else shedder_name(config)
    found[PLACEMENT_KEY] = placer_name(config) if kind is ManagerKind.MODULAR else ""
    return tuple(found.items())


def in_words(config: BrokerConfig) -> str:
    """Return a text that names the strategies of a configuration: its shedder and its placement strategy. If its load
    manager is not the modular one, which has no such choice, return a text that names the load manager.
    """
    kind = manager_in_force(config)
    if kind is not ManagerKind.MODULAR:
        return f"the {kind} load manager"
    shedder, placer = shedder_name(config), placer_name(config)
    return shedder if shedder == placer else f"{shedder} with {placer}"
