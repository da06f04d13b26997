"""`barycenter standalone` says of a broker.conf what it cannot do, before it starts anything."""

from pathlib import Path

import pytest

from barycenter.cli.run.standalone import checked_configuration


def test_unknown_keys_and_advice_are_told_with_the_mend(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text(
        "loadBalancerLoadSheddingStrategy=UniformLoadShedder\n"
        "loadBalancerDistributeBundlesEvenlyEnabled=false\n"
        "maxUnloadPercentage=0\n"
        "loadBalancerSheddingIntervalMinute=1\n"
    )
    assert checked_configuration(conf)["maxUnloadPercentage"] == "0"
    told = capsys.readouterr().err.splitlines()
    assert told == [
        f"barycenter: {conf}: unknown key loadBalancerSheddingIntervalMinute is ignored; "
        "did you mean loadBalancerSheddingIntervalMinutes?",
        f"barycenter: {conf}: warning: maxUnloadPercentage=0: UniformLoadShedder may move no part of a difference; "
        "set it above 0, Pulsar's default is 0.2",
    ]


def test_nothing_is_said_of_the_defaults(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text("clusterName=c\n")
    checked_configuration(conf)
    assert capsys.readouterr().err == ""
