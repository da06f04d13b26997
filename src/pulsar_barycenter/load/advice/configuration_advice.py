"""Advice on a load-balancing configuration, before a cluster shows its problems.

    >>> for found in advice(BrokerConfig(load_balancer_broker_threshold_shedder_percentage=100)):
    ...     print(found.severity, found)
    warning loadBalancerBrokerThresholdShedderPercentage=100: no broker can be that far above the mean, so \
    ThresholdShedder never sheds; set it lower, Pulsar's default is 10

Advice follows from the keys alone, without a cluster: thresholds that no load or every load reaches, strategies that
the load manager does not have, settings that cancel one another, keys that are not read. Pulsar's defaults get no
advice. Needs no numpy, because every broker runs it at its start and after each dynamic change.
"""

import difflib
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from pulsar_barycenter.config.broker_conf import FORMER_NAMES, default_config, keys
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.config.key import format_value, key_name
from pulsar_barycenter.load.advice.facts import Advice, Facts, Severity
from pulsar_barycenter.load.advice.rules import findings
from pulsar_barycenter.load.managers import (
    ManagerKind,
    StrategyError,
    UnknownLoadManagerError,
    manager_kind,
    short_name,
)
from pulsar_barycenter.load.strategies import BOTH, PLACEMENT_KEY, SHEDDING_KEY, are_apart, placer_name, shedder_name

__all__ = ["Advice", "Severity", "advice", "key_advice"]


def advice(config: BrokerConfig, *, network_bytes_per_s: float | None = None) -> list[Advice]:
    """Return the advice on a configuration: refusals first, then warnings, then notes. Advice of the same severity is
    in the order of the rules. The same advice is returned only once.

    `network_bytes_per_s` is the capacity of a broker's network in each direction, in bytes/s. None: the capacity is
    taken from the keys that override the speed of network interfaces, if they are set; otherwise it is unknown.
    """
    facts = Facts(config, network_bytes_per_s)
    found = [*_names(facts), *findings(facts)]
    return sorted(dict.fromkeys(found), key=lambda one: list(Severity).index(one.severity))


def key_advice(names: Iterable[str]) -> list[Advice]:
    """Return advice on those of `names` (names of keys in a file) that no key has, and on those that are a former name
    of a key. Other names get no advice.
    """
    found = []
    for name in names:
        if name in FORMER_NAMES:
            newer, _ = FORMER_NAMES[name]
            found.append(Advice(name, "…", Severity.NOTE, f"a former name of {newer}", f"write {newer}"))
        elif name not in keys():
            near = difflib.get_close_matches(name, list(keys()), n=1, cutoff=0.8)
            mend = f"did you mean {near[0]}?" if near else "remove it if nothing else reads the file"
            found.append(Advice(name, "…", Severity.WARNING, "an unknown key, which has no effect", mend))
    return found


# ---- names ----

_SHEDDING: Final = "load_balancer_load_shedding_strategy"
_PLACEMENT: Final = "load_balancer_load_placement_strategy"
_MANAGER: Final = "load_manager_class_name"


def _names(facts: Facts) -> Iterator[Advice]:
    """Yield advice on the keys whose values name a class (the load manager, the shedding strategy, the placement
    strategy): on names that do not exist or cannot be combined, and on keys that have no effect.
    """
    config = facts.config
    try:
        manager_kind(config.load_manager_class_name)
    except UnknownLoadManagerError as error:
        yield _refused(facts, _MANAGER, error, Severity.WARNING, "the simple load manager is used, as in Pulsar")
    match facts.manager:
        case ManagerKind.MODULAR:
            yield from _of_modular(facts)
        case ManagerKind.EXTENSIBLE:
            yield from _of_extensible(facts)
        case _:
            why = f"the {facts.manager} load manager does not read it"
            yield from _unread(facts, why)


def _of_modular(facts: Facts) -> Iterator[Advice]:
    checks: tuple[tuple[str, Callable[[BrokerConfig], str]], ...] = (
        (_SHEDDING, shedder_name),
        (_PLACEMENT, placer_name),
    )
    is_refused = False
    for attribute, check in checks:
        try:
            check(facts.config)
        except StrategyError as error:
            yield _refused(facts, attribute, error, Severity.REFUSED, "")
            is_refused = True
    if not is_refused and facts.config.barycenter_pulsar_compatibility != "4.x" and are_apart(facts.config):
        yield _apart(facts)


def _apart(facts: Facts) -> Advice:
    """Return the advice for a shedding key and a placement key that disagree: one names a strategy that both sheds and
    places bundles, the other key names another strategy.
    """
    shedder, named = shedder_name(facts.config), short_name(facts.config.load_balancer_load_placement_strategy)
    if named in BOTH:
        return facts.advise(
            _PLACEMENT,
            f"{named} only places bundles that it has shed itself, but {shedder} sheds; {facts.placer} places instead, "
            "as in Pulsar",
            f"set it to {facts.placer}, or to another strategy that only places",
            Severity.NOTE,
        )
    return facts.advise(
        _SHEDDING,
        f"{shedder} chooses the destination of a bundle, but {named} places it and may choose another broker",
        f"set {PLACEMENT_KEY}={shedder}",
    )


def _of_extensible(facts: Facts) -> Iterator[Advice]:
    own, named = shedder_name(facts.config, ManagerKind.EXTENSIBLE), facts.config.load_balancer_load_shedding_strategy
    defaults = default_config(facts.config.barycenter_pulsar_compatibility)
    if short_name(named) != own and named != defaults.load_balancer_load_shedding_strategy:
        yield facts.advise(
            _SHEDDING,
            f"the extensible load manager can only shed by {own}, and uses it instead, as in Pulsar",
            f"set {SHEDDING_KEY}={own}",
        )
    yield from _unread(facts, "the extensible load manager has its own placement", shedding=False)


def _unread(facts: Facts, why: str, *, shedding: bool = True) -> Iterator[Advice]:
    """Yield a note on each strategy key that is set (differs from its default) but has no effect. `why` is the reason,
    which becomes part of the note. `shedding` False: check only the key for placement.
    """
    defaults = default_config(facts.config.barycenter_pulsar_compatibility)
    for attribute, concerned in ((_SHEDDING, shedding), (_PLACEMENT, True)):
        if concerned and getattr(facts.config, attribute) != getattr(defaults, attribute):
            name = key_name(attribute)
            yield facts.advise(attribute, f"it has no effect: {why}", f"remove {name}", Severity.NOTE)


def _refused(facts: Facts, attribute: str, error: StrategyError, severity: Severity, effect: str) -> Advice:
    """Return the advice on the key of `attribute`, whose value caused `error`. The text of the error before its last
    semicolon is what is wrong, followed by `effect` (what happens with this value; "" to omit it). The text after the
    last semicolon is what to do.
    """
    text, _, mend = str(error).rpartition("; ")
    value = format_value(getattr(facts.config, attribute))
    for start in (
        f"{key_name(attribute)}={value!r} is ",
        f"{key_name(attribute)}={value!r} ",
        f"{key_name(attribute)} is ",
    ):
        text = text.removeprefix(start)
    return facts.advise(attribute, f"{text}; {effect}" if effect else text, mend, severity)
