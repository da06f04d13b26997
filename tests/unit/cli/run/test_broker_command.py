"""`barycenter broker` that cannot start says why in a sentence and ends with 1."""

import socket
from pathlib import Path

import pytest
from click.testing import CliRunner

from barycenter.cli.main import main
from barycenter.cli.run import broker


@pytest.fixture(autouse=True)
def own_logging(monkeypatch: pytest.MonkeyPatch) -> None:
    """Logging stays as the other tests have it."""
    monkeypatch.setattr(broker, "configure_logging", lambda **options: None)


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
        ("metadataStoreUrl=zk:127.0.0.1:2181", "metadata store URL 'zk:127.0.0.1:2181': expected sqlite:PATH"),
        ("loadBalancerLoadSheddingStrategy=NoSuchShedder", "NoSuchShedder"),
    ],
)
def test_what_is_configured_wrongly_is_named(tmp_path: Path, line: str, said: str) -> None:
    assert said in refusal(tmp_path, line)


def test_a_data_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file")
    assert refusal(tmp_path) == f"barycenter: {tmp_path / 'data'}: File exists\n"


def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = refusal(tmp_path, f"brokerServicePort={port}")
    assert said.startswith("barycenter: ")
    assert str(port) in said
