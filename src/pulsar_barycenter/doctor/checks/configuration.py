"""Checks of the configuration in force: unknown keys, contradicting values, brokers that differ."""

import difflib
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from pulsar_barycenter.config.broker_conf import ConfigError, dynamic_keys, keys, shown, validate_dynamic
from pulsar_barycenter.doctor.checks.balance import SWITCHES
from pulsar_barycenter.doctor.finding import ClusterFinding, Severity, found
from pulsar_barycenter.doctor.picture import MANAGER_KEY, OWN_KEY, PLACE_KEY, Picture, configuration_of
from pulsar_barycenter.load.advice.configuration_advice import Severity as AdviceSeverity
from pulsar_barycenter.load.advice.configuration_advice import advice, key_advice
from pulsar_barycenter.load.managers import StrategyError, manager_kind, short_name

AUTHORIZATION_KEY: Final = "authorizationEnabled"
MIGRATION_KEY: Final = "loadManagerMigrationEnabled"
_APART: Final[Mapping[str, tuple[Severity, str]]] = {
    "clusterName": (Severity.ERROR, "brokers of one cluster serve different namespaces"),
    MANAGER_KEY: (Severity.ERROR, "brokers look for owners in different places"),
    MIGRATION_KEY: (Severity.ERROR, "some brokers do not read the place where the others record owners"),
    PLACE_KEY: (Severity.ERROR, "brokers of the extensible load manager look for owners in different places"),
    "authenticationEnabled": (Severity.ERROR, "some brokers accept clients without authentication"),
    AUTHORIZATION_KEY: (Severity.ERROR, "some brokers allow everything to every authenticated client"),
    "superUserRoles": (Severity.WARNING, "the superusers depend on which broker is asked"),
    "leaderOnlyMetadataWrites": (Severity.ERROR, "some brokers write keys that others leave to the leader"),
    "metadataStoreSessionTimeoutMillis": (
        Severity.WARNING,
        "how long the bundles of a failed broker wait for an owner depends on that broker and on the leader",
    ),
    OWN_KEY: (Severity.WARNING, "which version's rules apply to balancing depends on the leader"),
    "loadBalancerEnabled": (Severity.WARNING, "whether load moves depends on the leader"),
    "loadBalancerSheddingEnabled": (Severity.WARNING, "whether load moves depends on the leader"),
    "loadBalancerLoadSheddingStrategy": (Severity.WARNING, "which load moves depends on the leader"),
    "loadBalancerLoadPlacementStrategy": (Severity.WARNING, "where load moves depends on the leader"),
}
"""Keys that must have the same value on all brokers, and the effect if they differ."""
_MAX_KEY_LENGTH: Final = 100
_SEVERITIES: Final = {
    AdviceSeverity.REFUSED: Severity.ERROR,
    AdviceSeverity.WARNING: Severity.WARNING,
    AdviceSeverity.NOTE: Severity.INFO,
}


def unknown_overrides(picture: Picture) -> Iterator[ClusterFinding]:
    """The dynamic configuration has a key or a value that no broker accepts.

    Yields a finding for each such key.
    """
    accepted = [broker.dynamic_keys for broker in picture.answering if broker.dynamic_keys is not None]
    is_foreign = bool(accepted) and not any(OWN_KEY in (broker.settings or {}) for broker in picture.answering)
    known = frozenset().union(*accepted) if accepted else frozenset(dynamic_keys())
    for key, text in sorted(_overrides(picture).items()):
        if key not in known:
            near = difflib.get_close_matches(key, sorted(known), n=1, cutoff=0.8)
            meant = f" Did you mean {near[0]}?" if near else ""
            what = "takes effect at a restart only" if key in keys() else "is not a key of any broker"
            yield found(
                Severity.WARNING,
                key,
                f"the dynamic configuration sets it, and it {what}: {text!r} is ignored.{meant}",
                "remove it from /admin/configuration in the metadata store; the REST accepts dynamic keys only"
                + (", and set it in broker.conf" if key in keys() else ""),
            )
        elif not is_foreign and key in keys():
            try:
                validate_dynamic(key, text)
            except ConfigError as error:
                yield found(
                    Severity.WARNING,
                    key,
                    f"the dynamic configuration sets a value that brokers ignore: {error}",
                    f"pulsar-admin brokers delete-dynamic-config --config {key}",
                )


def overrides_in_force(picture: Picture) -> Iterator[ClusterFinding]:
    """The dynamic configuration in force on a broker differs from the stored one.

    Yields a finding for each such broker.
    """
    stored = _overrides(picture)
    for broker in picture.answering:
        if broker.overrides is None:
            continue
        in_force = _shown(broker.overrides)
        if in_force != stored:
            keys_apart = sorted({key for key, _ in stored.items() ^ in_force.items()})
            yield found(
                Severity.ERROR,
                broker.broker,
                f"its dynamic configuration differs from the stored one: {', '.join(keys_apart)}",
                f"restart {broker.broker}: it misses notifications of the metadata store",
            )


def _overrides(picture: Picture) -> Mapping[str, str]:
    """Return the dynamic configuration of the store, else the one that most brokers have; secret values are hidden."""
    if picture.store is not None and picture.store.overrides is not None:
        return _shown(picture.store.overrides)
    counts = Counter(
        tuple(sorted(_shown(view.overrides).items())) for view in picture.answering if view.overrides is not None
    )
    return dict(counts.most_common(1)[0][0]) if counts else {}


def _shown(overrides: Mapping[str, str]) -> dict[str, str]:
    return {key: shown(key, text) for key, text in overrides.items()}


def apart(picture: Picture) -> Iterator[ClusterFinding]:
    """Brokers have different values for a key that must be the same on all.

    Yields a finding for each such key.
    """
    for key, (severity, effect) in _APART.items():
        by_value: dict[str, list[str]] = {}
        for broker in picture.answering:
            if broker.settings is not None and key in broker.settings:
                by_value.setdefault(_meaning(key, broker.settings[key]), []).append(broker.broker)
        if len(by_value) < 2:
            continue
        migrates = all((view.settings or {}).get(MIGRATION_KEY) == "true" for view in picture.answering)
        if key == MANAGER_KEY and migrates:
            severity, effect = Severity.INFO, f"a migration is in progress ({MIGRATION_KEY}=true); brokers read both"
        values = "; ".join(f"{value or 'blank'} at {_some(brokers)}" for value, brokers in sorted(by_value.items()))
        yield found(
            severity,
            key,
            f"{values}: {effect}",
            "set the same value in every broker.conf and restart the brokers one by one",
        )


def without_authorization(picture: Picture) -> Iterator[ClusterFinding]:
    """Brokers authenticate clients, but allow everything to every authenticated client.

    Yields one finding for all such brokers together.
    """
    open_to_all = [
        broker.broker
        for broker in picture.answering
        if broker.settings is not None
        and broker.settings.get("authenticationEnabled") == "true"
        and broker.settings.get(AUTHORIZATION_KEY, "true") != "true"
    ]
    if open_to_all:
        where = "" if len(open_to_all) == len(picture.answering) else f" (at {_some(open_to_all)})"
        yield found(
            Severity.WARNING,
            AUTHORIZATION_KEY,
            "authentication is on and authorization is off: every authenticated client may change the"
            f" configuration and delete topics, and superUserRoles has no effect{where}",
            f"set {AUTHORIZATION_KEY}=true and superUserRoles in every broker.conf, restart the brokers one by one, and"
            " grant each role what it needs",
        )


def _meaning(key: str, text: str) -> str:
    """Return a canonical form of a value: texts with the same meaning have the same form."""
    if key == MANAGER_KEY:
        try:
            return str(manager_kind(text))
        except StrategyError:
            return text
    return short_name(text) if key.endswith(("ClassName", "Strategy")) else text


def configuration(picture: Picture) -> Iterator[ClusterFinding]:
    """A configuration has an error or an unusual value, by the rules that brokers apply at their start.

    Yields a finding for each such value, with the brokers that have it. Keys that switch balancing off are left out:
    `balance.idle_shedder` reports them, also for brokers of Apache Pulsar.
    """
    said: dict[tuple[Severity, str, str, str], list[str]] = {}
    for broker, config in picture.configurations():
        for hint in advice(config):
            if hint.key in SWITCHES:
                continue
            line = (_SEVERITIES[hint.severity], f"{hint.key}={hint.value}", hint.sentence, hint.mend)
            said.setdefault(line, []).append(broker)
    everybody = len(picture.answering)
    for (severity, subject, sentence, mend), brokers in said.items():
        where = "" if len(brokers) == everybody else f" (at {_some(brokers)})"
        yield found(severity, subject, f"{sentence}{where}", mend)


def unparsed_settings(picture: Picture) -> Iterator[ClusterFinding]:
    """A broker has a value that this version does not allow.

    Yields a finding for each such broker, with the first of these values.
    """
    for broker in picture.answering:
        if broker.settings is not None and OWN_KEY in broker.settings:
            try:
                configuration_of(broker.settings)
            except ConfigError as error:
                yield found(
                    Severity.WARNING,
                    f"{broker.broker} {error.key}",
                    f"its value is not allowed in this version: {error}; its configuration was not checked",
                    "use the doctor of the version that the broker runs",
                )


def unknown_keys(picture: Picture) -> Iterator[ClusterFinding]:
    """The broker.conf has an unknown key, or no broker can start with this file.

    Yields a finding for each unknown key, and one if no broker can start. Nothing is checked if no file was given.
    """
    seen = picture.file
    if seen is None:
        return
    if seen.failure:
        yield found(Severity.ERROR, seen.file, f"no broker starts with it: {seen.failure}", "correct the file")
    for hint in key_advice(seen.other_keys):
        yield found(_SEVERITIES[hint.severity], hint.key[:_MAX_KEY_LENGTH], f"{hint.sentence}: {seen.file}", hint.mend)


def _some(brokers: list[str]) -> str:
    return ", ".join(sorted(brokers)[:3]) + (f" and {len(brokers) - 3:,} more" if len(brokers) > 3 else "")
