"""Dynamic configuration without a meaning, and brokers that disagree."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pulsar_barycenter.config.broker_conf import HIDDEN
from pulsar_barycenter.doctor.checks.configuration import (
    apart,
    configuration,
    overrides_in_force,
    unknown_keys,
    unknown_overrides,
    unparsed_settings,
    without_authorization,
)
from pulsar_barycenter.doctor.finding import Severity
from pulsar_barycenter.doctor.picture import MANAGER_KEY, Picture
from pulsar_barycenter.doctor.reading.file import read_file
from pulsar_barycenter.load.managers import ManagerKind
from support.doctor_pictures import BROKERS, SETTINGS, healthy, only, store, subjects, view, with_broker


def overridden(**overrides: str) -> Picture:
    return replace(
        healthy(),
        brokers=tuple(view(each, overrides=overrides) for each in BROKERS),
        store=store(overrides=overrides),
    )


def changed(broker: str, **settings: Any) -> Picture:
    return with_broker(healthy(), broker, settings={**SETTINGS, **settings})


def test_an_override_of_no_key_is_told_with_the_nearest_one() -> None:
    finding = only(unknown_overrides, overridden(loadBalancerShedingEnabled="true"))
    assert finding.severity is Severity.WARNING
    assert "Did you mean loadBalancerSheddingEnabled?" in finding.sentence


def test_an_override_of_a_key_of_the_file_alone_is_told() -> None:
    assert "at a restart only" in only(unknown_overrides, overridden(clusterName="other")).sentence


def test_an_override_with_a_value_that_is_not_allowed_is_told() -> None:
    assert "brokers ignore" in only(unknown_overrides, overridden(loadBalancerSheddingEnabled="perhaps")).sentence


def test_what_brokers_of_another_kind_take_is_asked_of_them() -> None:
    foreign = tuple(
        view(each, settings={"clusterName": "c"}, dynamic_keys=frozenset({"theirs"}), overrides={"theirs": "1"})
        for each in BROKERS
    )
    picture = replace(healthy(), brokers=foreign, store=None)
    assert subjects(unknown_overrides, picture) == []


def test_a_store_alone_is_judged_by_the_keys_that_are_known_here() -> None:
    picture = Picture(0, store=store(overrides={"noSuchKey": "1", "loadBalancerSheddingEnabled": "true"}))
    assert subjects(unknown_overrides, picture) == ["noSuchKey"]


def test_a_broker_with_another_dynamic_configuration_than_is_stored_is_told() -> None:
    picture = with_broker(overridden(loadBalancerSheddingEnabled="true"), "b2:8080", overrides={})
    finding = only(overrides_in_force, picture)
    assert finding.subject == "b2:8080"
    assert "loadBalancerSheddingEnabled" in finding.sentence
    assert subjects(overrides_in_force, replace(picture, store=None)) == ["b2:8080"], "or than most have"


def test_a_secret_that_was_stored_by_mistake_is_told_by_its_key_alone() -> None:
    """Brokers show of it that there is one, which is no difference."""
    stored = overridden(tokenSecretKey="hush")
    picture = with_broker(stored, "b2:8080", overrides={"tokenSecretKey": HIDDEN})
    assert subjects(overrides_in_force, picture) == []
    finding = only(unknown_overrides, picture)
    assert "hush" not in str(finding)
    assert finding.subject == "tokenSecretKey"


@pytest.mark.parametrize(
    ("key", "value", "severity"),
    [
        (MANAGER_KEY, ManagerKind.EXTENSIBLE.class_name, Severity.ERROR),
        ("loadManagerMigrationEnabled", "true", Severity.ERROR),
        ("loadManagerServiceUnitStateTableViewClassName", "x.ServiceUnitStateMetadataStoreTableViewImpl", "error"),
        ("barycenterPulsarCompatibility", "4.x", Severity.WARNING),
        ("clusterName", "other", Severity.ERROR),
        ("authorizationEnabled", "true", Severity.ERROR),
        ("superUserRoles", "admin", Severity.WARNING),
        ("leaderOnlyMetadataWrites", "administration", Severity.ERROR),
        ("metadataStoreSessionTimeoutMillis", "30000", Severity.WARNING),
    ],
)
def test_brokers_that_have_to_agree_and_do_not_are_told(key: str, value: str, severity: str) -> None:
    finding = only(apart, changed("b2:8080", **{key: value}))
    assert (finding.subject, finding.severity) == (key, severity)
    assert "at b2:8080" in finding.sentence


AUTHENTICATED = {"authenticationEnabled": "true", "authorizationEnabled": "false"}


def test_authentication_without_authorization_is_told() -> None:
    """Of foreign brokers, too: their keys are the same."""
    everywhere = replace(
        healthy(), brokers=tuple(view(each, settings={**SETTINGS, **AUTHENTICATED}) for each in BROKERS)
    )
    finding = only(without_authorization, everywhere)
    assert (finding.severity, finding.subject) == (Severity.WARNING, "authorizationEnabled")
    assert "(at " not in finding.sentence
    assert "(at b2:8080)" in only(without_authorization, changed("b2:8080", **AUTHENTICATED)).sentence


@pytest.mark.parametrize("authenticated", ["true", "false"])
def test_authorization_and_an_open_cluster_are_no_finding(authenticated: str) -> None:
    """Without authentication the rest has no effect either: that is the default, on loopback."""
    settings = {"authenticationEnabled": authenticated, "authorizationEnabled": authenticated}
    assert subjects(without_authorization, changed("b2:8080", **settings)) == []


def test_two_spellings_of_one_class_are_one() -> None:
    assert subjects(apart, changed("b2:8080", **{MANAGER_KEY: SETTINGS[MANAGER_KEY].rpartition(".")[2]})) == []


def test_two_load_managers_in_a_migration_are_no_fault() -> None:
    migrating = {**SETTINGS, "loadManagerMigrationEnabled": "true"}
    views = [view(each, settings=migrating) for each in BROKERS[:2]]
    views.append(view(BROKERS[2], settings={**migrating, MANAGER_KEY: ManagerKind.EXTENSIBLE.class_name}))
    assert only(apart, replace(healthy(), brokers=tuple(views))).severity is Severity.INFO


def test_advice_on_the_configuration_is_told_once_and_says_where() -> None:
    shedder = {
        "loadBalancerLoadSheddingStrategy": "ThresholdShedder",
        "loadBalancerBrokerThresholdShedderPercentage": "100",
    }
    found = list(configuration(changed("b2:8080", **shedder)))
    (finding,) = [each for each in found if "never sheds" in each.sentence]
    assert "(at b2:8080)" in finding.sentence
    assert finding.severity is Severity.WARNING


def test_that_shedding_is_off_is_left_to_the_check_of_that() -> None:
    assert subjects(configuration, changed("b2:8080", loadBalancerSheddingEnabled="false")) == []


def test_a_value_that_does_not_parse_is_told_and_its_configuration_is_not_judged() -> None:
    picture = changed("b2:8080", loadBalancerSheddingEnabled="perhaps")
    assert subjects(unparsed_settings, picture) == ["b2:8080 loadBalancerSheddingEnabled"]
    assert [name for name, _ in picture.configurations()] == ["b1:8080", "b3:8080"]


def test_keys_of_a_file_that_nobody_knows_are_told(tmp_path: Path) -> None:
    file = tmp_path / "broker.conf"
    file.write_text("clusterName=c\nloadBalancerSheddingEnabledd=true\nzookeeperServers=\nnoSuchThing=1\n")
    seen = replace(healthy(), file=read_file(str(file)))
    told = {finding.subject: finding for finding in unknown_keys(seen)}
    assert told["loadBalancerSheddingEnabledd"].severity is Severity.WARNING
    assert "did you mean loadBalancerSheddingEnabled?" in told["loadBalancerSheddingEnabledd"].mend
    assert told["noSuchThing"].severity is Severity.WARNING
    assert told["zookeeperServers"].severity is Severity.INFO
    assert "clusterName" not in told


@pytest.mark.parametrize("text", ["no pair", "webServicePort=many", None])
def test_a_file_with_which_no_broker_starts_is_told(tmp_path: Path, text: str | None) -> None:
    file = tmp_path / "broker.conf"
    if text is not None:
        file.write_text(text)
    finding = only(unknown_keys, replace(healthy(), file=read_file(str(file))))
    assert (finding.subject, finding.severity) == (str(file), Severity.ERROR)
