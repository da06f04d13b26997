"""The sources of settings, as brokers report them."""

from dataclasses import replace

import pytest

from pulsar_barycenter.config.broker_conf import default_config, runtime_values
from pulsar_barycenter.doctor.picture import OWN_KEY, Picture
from pulsar_barycenter.status.effective_settings import Setting, Source, settings_of
from support.doctor_pictures import BROKERS, SETTINGS, healthy, with_broker

SHEDDER = "loadBalancerLoadSheddingStrategy"
INTERVAL = "loadBalancerSheddingIntervalMinutes"


def of(picture: Picture, key: str) -> Setting:
    (found,) = [setting for setting in settings_of(picture) if setting.key == key]
    return found


def test_of_a_cluster_without_a_broker_conf_all_is_default() -> None:
    settings = settings_of(healthy())
    assert len(settings) == len(SETTINGS)
    assert all(setting.is_default and list(setting.sources.values()) == [Source.DEFAULT] for setting in settings)


@pytest.mark.parametrize("version", ["4.x", "5.x"])
def test_defaults_are_those_of_the_version_that_is_followed(version: str) -> None:
    picture = healthy()
    for broker in BROKERS:
        picture = with_broker(picture, broker, settings=runtime_values(default_config(version)))  # type: ignore[arg-type]
    assert of(picture, SHEDDER).is_default
    assert of(picture, OWN_KEY).is_default


def test_a_value_comes_from_the_file_unless_it_is_dynamic() -> None:
    settings = {**SETTINGS, SHEDDER: "ThresholdShedder", INTERVAL: "7"}
    picture = with_broker(healthy(), BROKERS[1], settings=settings, overrides={INTERVAL: "7"})
    shedder, interval = of(picture, SHEDDER), of(picture, INTERVAL)
    assert shedder.values == {SETTINGS[SHEDDER]: [BROKERS[0], BROKERS[2]], "ThresholdShedder": [BROKERS[1]]}
    assert shedder.sources == {SETTINGS[SHEDDER]: Source.DEFAULT, "ThresholdShedder": Source.FILE}
    assert interval.sources["7"] is Source.DYNAMIC
    assert not shedder.is_alike
    assert (interval.default, interval.is_default, interval.is_dynamic) == (SETTINGS[INTERVAL], False, True)


def test_of_apache_pulsar_defaults_are_not_known_and_secrets_are_not_shown() -> None:
    foreign = {"clusterName": "c", "brokerClientTlsTrustStorePassword": "hush", "tokenSecretKey": ""}
    picture = replace(healthy(), snapshot=None)
    for broker in BROKERS:
        picture = with_broker(picture, broker, settings=foreign, dynamic_keys=frozenset())
    assert [setting.key for setting in settings_of(picture)] == sorted(foreign)
    assert of(picture, "clusterName").sources == {"c": Source.UNKNOWN}
    assert "hush" not in str(settings_of(picture))
    assert list(of(picture, "tokenSecretKey").values) == [""]
