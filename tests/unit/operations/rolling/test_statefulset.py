"""What a StatefulSet lacks for a roll, by answers of `kubectl` in the form of its API."""

import asyncio
import json
import stat
from pathlib import Path
from typing import Any

import pytest

from pulsar_barycenter.operations.executor import RefusedError
from pulsar_barycenter.operations.rolling.statefulset import (
    Lack,
    decode_service,
    decode_statefulset,
    lacks_of,
    read_statefulset,
    restart_command,
)

BROKERS = [f"broker-{number}.brokers.messages.svc.cluster.local:8080" for number in range(3)]


def statefulset() -> dict[str, Any]:
    container = {
        "name": "broker",
        "image": "pulsar:5",
        "readinessProbe": {"httpGet": {"path": "/admin/v2/brokers/ready", "port": 8080}},
        "lifecycle": {"preStop": {"exec": {"command": ["drain"]}}},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "broker", "namespace": "messages", "labels": {"app": "pulsar"}},
        "spec": {
            "replicas": 3,
            "serviceName": "brokers",
            "updateStrategy": {"type": "OnDelete"},
            "template": {"spec": {"terminationGracePeriodSeconds": 600, "containers": [container]}},
        },
        "status": {"readyReplicas": 3, "replicas": 3},
    }


def service() -> dict[str, Any]:
    spec = {"clusterIP": "None", "publishNotReadyAddresses": True, "ports": [{"port": 8080}]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "brokers"}, "spec": spec}


def lacks(found: dict[str, Any], of_service: dict[str, Any], brokers: list[str] = BROKERS) -> tuple[Lack, ...]:
    return lacks_of(
        decode_statefulset(json.dumps(found).encode()), decode_service(json.dumps(of_service).encode()), brokers
    )


def test_a_statefulset_that_has_all_lacks_nothing_and_says_how_to_restart_a_pod() -> None:
    assert lacks(statefulset(), service()) == ()
    found = decode_statefulset(json.dumps(statefulset()).encode())
    assert restart_command(found) == "kubectl --namespace messages delete pod {pod}"


def test_pods_of_a_rolling_update_are_restarted_by_kubernetes_unless_a_partition_keeps_all() -> None:
    found = statefulset()
    found["spec"]["updateStrategy"] = {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}
    (lack,) = lacks(found, service())
    assert lack.is_error
    assert "patch statefulset broker" in lack.mend
    found["spec"]["updateStrategy"]["rollingUpdate"]["partition"] = 3
    assert lacks(found, service()) == ()
    del found["spec"]["updateStrategy"]
    assert [lack.is_error for lack in lacks(found, service())] == [True]


@pytest.mark.parametrize(
    ("path", "value", "is_error", "words"),
    [
        (("template", "spec", "terminationGracePeriodSeconds"), 30, False, "terminationGracePeriodSeconds is 30"),
        (("template", "spec", "containers"), [{"name": "broker"}], False, "preStop"),
        (("replicas",), 4, True, "of 4 pods of broker, 3 are ready"),
    ],
)
def test_what_is_missing_in_the_statefulset_is_said(
    path: tuple[str, ...], value: Any, is_error: bool, words: str
) -> None:
    found = statefulset()
    place = found["spec"]
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    said = lacks(found, service())
    assert any(words in lack.sentence and lack.is_error is is_error and lack.mend for lack in said)


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [("clusterIP", "10.0.0.1", "not headless"), ("publishNotReadyAddresses", False, "not publish addresses")],
)
def test_a_service_that_does_not_fit_is_an_error(key: str, value: Any, words: str) -> None:
    changed = service()
    changed["spec"][key] = value
    (lack,) = lacks(statefulset(), changed)
    assert lack.is_error
    assert words in lack.sentence


def test_brokers_that_are_not_named_like_pods_are_named() -> None:
    (lack,) = lacks(statefulset(), service(), [*BROKERS, "10.1.2.3:8080"])
    assert "10.1.2.3:8080 is not named like a pod of broker" in lack.sentence


def kubectl(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    file = folder / "kubectl"
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def test_kubectl_is_asked_for_the_statefulset_and_its_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "statefulset").write_text(json.dumps(statefulset()))
    (tmp_path / "service").write_text(json.dumps(service()))
    kubectl(tmp_path, f'echo "$@" >> {tmp_path}/asked; cat {tmp_path}/$4', monkeypatch)
    found, of_service = asyncio.run(read_statefulset("messages/broker"))
    assert lacks_of(found, of_service, BROKERS) == ()
    assert (tmp_path / "asked").read_text().splitlines() == [
        "--namespace messages get statefulset broker --output json",
        "--namespace messages get service brokers --output json",
    ]


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("echo 'Error: statefulsets.apps \"x\" not found' >&2; exit 1", "failed: Error: statefulsets.apps"),
        ("echo nothing", "is not a StatefulSet"),
        ("exit 7", "status 7"),
    ],
)
def test_a_kubectl_that_fails_is_a_sentence(
    script: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kubectl(tmp_path, script, monkeypatch)
    with pytest.raises(RefusedError, match=words):
        asyncio.run(read_statefulset("x"))


def test_without_kubectl_it_is_said_to_install_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RefusedError, match="install kubectl"):
        asyncio.run(read_statefulset("x"))
