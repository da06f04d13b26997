"""The configuration in force: keys that are not known, values that contradict, brokers that differ."""

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
    MIGRATION_KEY: (Severity.ERROR, "some brokers do not look where the others keep their owners"),
    PLACE_KEY: (Severity.ERROR, "brokers of the extensible load manager look for owners in different places"),
    "authenticationEnabled": (Severity.ERROR, "some brokers let in who shows nothing"),
    AUTHORIZATION_KEY: (Severity.ERROR, "some brokers let anybody who is known do everything"),
    "superUserRoles": (Severity.WARNING, "who may administrate depends on which broker is asked"),
    "leaderOnlyMetadataWrites": (Severity.ERROR, "some brokers write what others leave to the leader"),
    "metadataStoreSessionTimeoutMillis": (
        Severity.WARNING,
        "how long a lost broker's bundles wait depends on which it is, and who leads",
    ),
    OWN_KEY: (Severity.WARNING, "whoever leads balances by another version's rules"),
    "loadBalancerEnabled": (Severity.WARNING, "whether load moves depends on who leads"),
    "loadBalancerSheddingEnabled": (Severity.WARNING, "whether load moves depends on who leads"),
    "loadBalancerLoadSheddingStrategy": (Severity.WARNING, "how load moves depends on who leads"),
    "loadBalancerLoadPlacementStrategy": (Severity.WARNING, "where load goes depends on who leads"),
}
"""Keys in which brokers have to agree, and what comes of it where they do not."""
_LONGEST_KEY: Final = 100
_SEVERITIES: Final = {
    AdviceSeverity.REFUSED: Severity.ERROR,
    AdviceSeverity.WARNING: Severity.WARNING,
    AdviceSeverity.NOTE: Severity.INFO,
}


def unknown_overrides(picture: Picture) -> Iterator[ClusterFinding]:
    """The dynamic configuration names a key that no broker takes, or a value that none does."""
    told = [broker.dynamic_keys for broker in picture.answering if broker.dynamic_keys is not None]
    is_foreign = bool(told) and not any(OWN_KEY in (broker.settings or {}) for broker in picture.answering)
    known = frozenset().union(*told) if told else frozenset(dynamic_keys())
    for key, text in sorted(_overrides(picture).items()):
        if key not in known:
            near = difflib.get_close_matches(key, sorted(known), n=1, cutoff=0.8)
            meant = f" Did you mean {near[0]}?" if near else ""
            what = "takes effect at a restart only" if key in keys() else "is known to no broker"
            yield found(
                Severity.WARNING,
                key,
                f"the dynamic configuration sets it, and it {what}: {text!r} is ignored.{meant}",
                "remove it from /admin/configuration in the metadata store; the REST takes dynamic keys only"
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
    """A broker goes by other dynamic configuration than what is stored."""
    stored = _overrides(picture)
    for broker in picture.answering:
        if broker.overrides is None:
            continue
        told = _shown(broker.overrides)
        if told != stored:
            keys_apart = sorted({key for key, _ in stored.items() ^ told.items()})
            yield found(
                Severity.ERROR,
                broker.broker,
                f"it goes by another dynamic configuration than is stored: {', '.join(keys_apart)}",
                f"restart {broker.broker}; it does not hear of changes in the metadata store",
            )


def _overrides(picture: Picture) -> Mapping[str, str]:
    """Return the dynamic configuration as stored, else as most brokers have it; as it may be shown, and as brokers
    show it."""
    if picture.store is not None and picture.store.overrides is not None:
        return _shown(picture.store.overrides)
    told = Counter(
        tuple(sorted(_shown(each.overrides).items())) for each in picture.answering if each.overrides is not None
    )
    return dict(told.most_common(1)[0][0]) if told else {}


def _shown(overrides: Mapping[str, str]) -> dict[str, str]:
    return {key: shown(key, text) for key, text in overrides.items()}


def apart(picture: Picture) -> Iterator[ClusterFinding]:
    """Brokers have different values of a key in which they have to agree."""
    for key, (severity, effect) in _APART.items():
        told: dict[str, list[str]] = {}
        for broker in picture.answering:
            if broker.settings is not None and key in broker.settings:
                told.setdefault(_meaning(key, broker.settings[key]), []).append(broker.broker)
        if len(told) < 2:
            continue
        migrates = all((each.settings or {}).get(MIGRATION_KEY) == "true" for each in picture.answering)
        if key == MANAGER_KEY and migrates:
            severity, effect = Severity.INFO, f"a migration is under way ({MIGRATION_KEY}=true); brokers look in both"
        values = "; ".join(f"{value or 'blank'} at {_some(brokers)}" for value, brokers in sorted(told.items()))
        yield found(
            severity, key, f"{values}: {effect}", "set it alike in every broker.conf and restart the brokers one by one"
        )


def without_authorization(picture: Picture) -> Iterator[ClusterFinding]:
    """Brokers ask who a client is, and let each one who is known do everything."""
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
            "authentication is on and authorization is off: every client that shows a valid proof may change the"
            f" configuration and delete topics, and superUserRoles binds nobody{where}",
            f"set {AUTHORIZATION_KEY}=true and superUserRoles in every broker.conf, restart the brokers one by one, and"
            " grant each role what it needs",
        )


def _meaning(key: str, text: str) -> str:
    """Return a value so that two texts that mean the same are the same."""
    if key == MANAGER_KEY:
        try:
            return str(manager_kind(text))
        except StrategyError:
            return text
    return short_name(text) if key.endswith(("ClassName", "Strategy")) else text


def configuration(picture: Picture) -> Iterator[ClusterFinding]:
    """What is wrong or not meant in a configuration, by the rules that brokers tell at their start.

    That balancing is off is told by `balance.idle_shedder`, of foreign brokers as well.
    """
    said: dict[tuple[Severity, str, str, str], list[str]] = {}
    for broker, config in picture.configurations():
        for each in advice(config):
            if each.key in SWITCHES:
                continue
            line = (_SEVERITIES[each.severity], f"{each.key}={each.value}", each.sentence, each.mend)
            said.setdefault(line, []).append(broker)
    everybody = len(picture.answering)
    for (severity, subject, sentence, mend), brokers in said.items():
        where = "" if len(brokers) == everybody else f" (at {_some(brokers)})"
        yield found(severity, subject, f"{sentence}{where}", mend)


def unparsed_settings(picture: Picture) -> Iterator[ClusterFinding]:
    """A broker has a value that this version does not allow."""
    for broker in picture.answering:
        if broker.settings is not None and OWN_KEY in broker.settings:
            try:
                configuration_of(broker.settings)
            except ConfigError as error:
                yield found(
                    Severity.WARNING,
                    f"{broker.broker} {error.key}",
                    f"its value is not allowed here: {error}; its configuration was not judged",
                    "use the doctor of the version that the broker runs",
                )


def unknown_keys(picture: Picture) -> Iterator[ClusterFinding]:
    """The broker.conf names a key that no broker takes, or a broker does not start with it."""
    seen = picture.file
    if seen is None:
        return
    if seen.failure:
        yield found(Severity.ERROR, seen.file, f"no broker starts with it: {seen.failure}", "mend the file")
    for each in key_advice(seen.other_keys):
        yield found(_SEVERITIES[each.severity], each.key[:_LONGEST_KEY], f"{each.sentence}: {seen.file}", each.mend)


def _some(brokers: list[str]) -> str:
    return ", ".join(sorted(brokers)[:3]) + (f" and {len(brokers) - 3:,} more" if len(brokers) > 3 else "")
