"""`barycenter standalone` reports what a broker.conf cannot do, before it starts anything."""

from pathlib import Path

import pytest

from pulsar_barycenter.cli.run.standalone import checked_configuration
from pulsar_barycenter.config.broker_conf import load_broker_conf
from pulsar_barycenter.standalone.cluster import ClusterSettings, StandaloneCluster
from pulsar_barycenter.standalone.data_directory import DataDirectory


def test_unknown_keys_and_advice_are_told_with_the_mend(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text(
        "loadBalancerLoadSheddingStrategy=UniformLoadShedder\n"
        "loadBalancerLoadPlacementStrategy=LeastLongTermMessageRate\n"
        "maxUnloadPercentage=0\n"
        "loadBalancerSheddingIntervalMinute=1\n"
    )
    assert checked_configuration(conf)["maxUnloadPercentage"] == "0"
    told = capsys.readouterr().err.splitlines()
    assert told == [
        f"barycenter: {conf}: unknown key loadBalancerSheddingIntervalMinute is ignored; "
        "did you mean loadBalancerSheddingIntervalMinutes?",
        f"barycenter: {conf}: warning: maxUnloadPercentage=0: UniformLoadShedder may move no part of a difference, "
        "so it never sheds; "
        "set it above 0, at most to 0.5",
    ]


def test_a_key_that_standalone_sets_itself_is_told_and_the_advertised_address_is_taken(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text("advertisedAddress=outside.example\nwebServicePort=99\nbindAddress=\n")
    configuration = checked_configuration(conf)
    told = capsys.readouterr().err.splitlines()
    assert told == [f"barycenter: {conf}: webServicePort is ignored, because an option of `standalone` sets this key"]
    directory = DataDirectory(tmp_path / "data")
    directory.create()
    cluster = StandaloneCluster(ClusterSettings(directory, configuration=configuration, web_port=8081))
    broker = cluster.brokers[0]
    broker.write_configuration()
    written = load_broker_conf(broker.configuration_file).config
    assert (written.advertised_address, written.bind_address) == ("outside.example", "127.0.0.1")
    assert (written.web_service_port, broker.broker_id) == (8081, "outside.example:8081")


def test_nothing_is_said_of_the_defaults(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text("clusterName=c\n")
    checked_configuration(conf)
    assert capsys.readouterr().err == ""
