"""What `collect` records of a cluster's settings: what balancing uses, when it changed, and no secret."""

from pathlib import Path

import msgspec
import pytest

from pulsar_barycenter.observer.recorded_settings import append_settings, read_settings, recorded_settings

RUNTIME = {
    "clusterName": "c1",
    "loadBalancerSheddingEnabled": "true",
    "loadBalancerLoadSheddingStrategy": "ThresholdShedder",
    "brokerClientAuthenticationParameters": "token:secret",
    "tokenSecretKey": "secret",
}


def test_only_what_balancing_uses_is_recorded() -> None:
    found = recorded_settings(7, RUNTIME, "b:1")
    assert (found.at, found.cluster, found.leader) == (7, "c1", "b:1")
    assert found.settings == {
        "loadBalancerLoadSheddingStrategy": "ThresholdShedder",
        "loadBalancerSheddingEnabled": "true",
    }


def test_records_are_read_back_without_an_incomplete_line(tmp_path: Path) -> None:
    file = tmp_path / "out" / "settings.jsonl"
    assert read_settings(file) == []
    records = [recorded_settings(at, RUNTIME, "b:1") for at in (1, 2)]
    for record in records:
        append_settings(file, record)
    with file.open("ab") as stream:
        stream.write(b'{"at":')
    assert read_settings(file) == records
    assert records[0].is_like(records[1])
    assert not records[0].is_like(recorded_settings(1, RUNTIME, "b:2"))


def test_a_line_that_is_no_record_is_told(tmp_path: Path) -> None:
    file = tmp_path / "settings.jsonl"
    file.write_bytes(b"[]\n")
    with pytest.raises(msgspec.DecodeError):
        read_settings(file)
