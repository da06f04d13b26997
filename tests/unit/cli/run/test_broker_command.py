"""`barycenter broker`: what it does before it serves; if it cannot start it says why and ends with 1."""

import socket
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from pulsar_barycenter.cli.main import main
from pulsar_barycenter.cli.run import broker
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.metadata.memory.memory_store import MemoryBackend
from pulsar_barycenter.run.ledger_storages import ledgers_of


@pytest.fixture(autouse=True)
def own_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Logging, and how this process is scheduled, stay as the other tests have them."""
    monkeypatch.setattr(broker, "configure_logging", lambda **options: None)
    monkeypatch.setattr(broker, "take_short_turns", lambda: None)


def refusal(folder: Path, *lines: str) -> str:
    conf = folder / "broker.conf"
    keys = [f"barycenterDataDir={folder / 'data'}", "advertisedAddress=127.0.0.1", "bindAddress=127.0.0.1"]
    keys += ["brokerServicePort=0", "webServicePort=0"]
    conf.write_text("\n".join([*keys, *lines]) + "\n")
    result = CliRunner().invoke(main, ["broker", "--config", str(conf)])
    assert result.exit_code == 1, result.output
    assert "ready" not in result.stdout
    return result.stderr


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("brokerServicePort=70000", "brokerServicePort"),
        ("bindAddress=0.0.0.0", "Set authenticationEnabled=true, and no anonymousUserRole"),
        ("bindAddress=somewhere", "barycenterUnauthenticatedNetworkAllowed=true"),
        (
            "bindAddress=somewhere\nauthenticationEnabled=true\nanonymousUserRole=guest",
            "anonymousUserRole=guest and authorizationEnabled=false",
        ),
        ("authenticationEnabled=true", "brokerClientAuthenticationPlugin must be set"),
        ("webServicePortTls=0", "tlsCertificateFilePath: the PEM file is not set"),
        ("metadataStoreUrl=zk:127.0.0.1", "metadata store URL 'zk:127.0.0.1': expected sqlite:PATH"),
        ("loadBalancerLoadSheddingStrategy=NoSuchShedder", "NoSuchShedder"),
        ("clusterName=a b", "clusterName=a b is not allowed: clusterName must be "),
        (
            "advertisedAddress=http://broker-1",
            "advertisedAddress must be a host name or an IPv4 address without a port",
        ),
        ("advertisedAddress=broker-1:6650", "advertisedAddress must be a host name or an IPv4 address"),
        ("advertisedAddress=::1", "advertisedAddress must be a host name or an IPv4 address"),
        ("advertisedAddress=\nbindAddress=::1", "A broker's id cannot contain an IPv6 address"),
        (f"bindAddress={'a' * 64}", "bindAddress must be a host name or an address of this machine"),
        ("advertisedListeners=inside", "advertisedListeners=inside is not allowed: advertisedListeners must be "),
        ("advertisedListeners=a:pulsar://b:1,a:http://b:2", "'a:http://b:2' must have the scheme pulsar or pulsar+ssl"),
        ("advertisedListeners=a:pulsar://b:1,a:pulsar://b:2", "'a:pulsar://b:2' is a second URL of the same listener"),
        ("advertisedListeners=a:pulsar://b", "'a:pulsar://b' lacks a valid host and port"),
        ("advertisedListeners=a:pulsar://[b:1", "'a:pulsar://[b:1' lacks a valid host and port"),
        ("internalListenerName=b\nadvertisedListeners=a:pulsar://b:1", "the name of a listener in advertisedListeners"),
    ],
)
def test_what_is_configured_wrongly_is_named(tmp_path: Path, line: str, said: str) -> None:
    told = refusal(tmp_path, line)
    assert said in told
    assert len(told.splitlines()) == 1


async def test_recent_entries_have_the_memory_that_is_configured(tmp_path: Path) -> None:
    config = BrokerConfig(barycenter_data_dir=str(tmp_path), managed_ledger_cache_size_mb=3)
    store = MemoryBackend().connect()
    ledgers = await ledgers_of(config, store)
    try:
        assert ledgers.caches.tail.capacity_bytes == 3 * 1024 * 1024
    finally:
        await ledgers.close()
        await store.close()


def test_a_data_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file")
    assert refusal(tmp_path) == f"barycenter: {tmp_path / 'data'}: File exists\n"


def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = refusal(tmp_path, f"brokerServicePort={port}")
    assert said.startswith("barycenter: ")
    assert str(port) in said


def test_a_broker_takes_short_turns_before_it_starts_a_thread(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    done: list[str] = []

    def serve(work: Coroutine[Any, Any, None]) -> None:
        work.close()
        done.append("serves")

    monkeypatch.setattr(broker, "configure_logging", lambda **_: None)
    monkeypatch.setattr(broker, "take_short_turns", lambda: done.append("short turns"))
    monkeypatch.setattr(broker.uvloop, "run", serve)
    conf = tmp_path / "broker.conf"
    conf.write_text(f"clusterName=c1\nbarycenterDataDir={tmp_path}\n")
    result = CliRunner().invoke(broker.command, ["--config", str(conf)])
    assert result.exit_code == 0, result.output
    assert done == ["short turns", "serves"]
