"""The file with the trusted authorities for ZooKeeper's servers, and the client's credentials."""

from pathlib import Path

import pytest

from pulsar_barycenter.metadata.errors import StoreSettingsError
from pulsar_barycenter.metadata.zookeeper.zookeeper_settings import KEYS, ZooKeeperSettings, read_settings
from support.certificates import make_certificates


def test_without_a_file_there_is_neither_tls_nor_a_user() -> None:
    assert read_settings("") == ZooKeeperSettings()
    assert ZooKeeperSettings().client_options() == {"use_ssl": False}


def test_the_file_has_zookeepers_keys_and_user_and_password(tmp_path: Path) -> None:
    made = make_certificates(tmp_path / "certificates")
    shown = tmp_path / "shown.pem"
    shown.write_text(made.key.read_text() + made.certificate.read_text())
    file = tmp_path / "zookeeper.properties"
    file.write_text(
        "# as ZooKeeper's own clients\n"
        "zookeeper.clientCnxnSocket=org.apache.zookeeper.ClientCnxnSocketNetty\n"
        "zookeeper.client.secure=true\nzookeeper.ssl.hostnameVerification=False\nzookeeper.sasl.client=false\n"
        f"zookeeper.ssl.trustStore.location={made.authority}\nzookeeper.ssl.trustStore.type=PEM\n"
        f"zookeeper.ssl.keyStore.location={shown}\nuser=broker\npassword=s3=cret\n"
    )
    settings = read_settings(str(file))
    assert settings == ZooKeeperSettings(
        tls=True,
        trusted_certificates=str(made.authority),
        certificate_and_key=str(shown),
        checks_host_names=False,
        user="broker",
        password="s3=cret",
    )
    assert "s3=cret" not in repr(settings)
    assert settings.client_options()["auth_data"] == [("digest", "broker:s3=cret")]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("hidden", "lines key=value"),
        ("usr=hidden", f"unknown key usr; known are {KEYS[0]}"),
        ("user=broker", "set both"),
        ("password=hidden", "set both"),
        ("user=a:b\npassword=hidden", "must not contain a colon"),
        ("zookeeper.client.secure=hidden", "true or false"),
        ("zookeeper.sasl.client=true", "SASL is not supported"),
        ("zookeeper.ssl.keyStore.location=a.jks\nzookeeper.ssl.keyStore.type=JKS", "only PEM"),
        ("zookeeper.ssl.trustStore.location=a.pem", "certificates need zookeeper.client.secure=true"),
        ("zookeeper.client.secure=true\nzookeeper.ssl.trustStore.location=/none", "No such file"),
        ("zookeeper.client.secure=true\nzookeeper.ssl.trustStore.location={}", "does not contain PEM certificates"),
        (
            "zookeeper.client.secure=true\nzookeeper.ssl.keyStore.location={}",
            "does not contain a PEM certificate and its key",
        ),
    ],
)
def test_a_file_that_cannot_be_is_refused_without_its_content(tmp_path: Path, content: str, why: str) -> None:
    (tmp_path / "text").write_text("hidden")
    file = tmp_path / "zookeeper.properties"
    file.write_text(content.format(tmp_path / "text"))
    with pytest.raises(StoreSettingsError, match=why) as refused:
        read_settings(str(file))
    assert "hidden" not in str(refused.value)


def test_a_file_that_is_not_there_or_too_large_is_told(tmp_path: Path) -> None:
    with pytest.raises(StoreSettingsError, match="No such file"):
        read_settings(str(tmp_path / "none"))
    (tmp_path / "large").write_bytes(bytes(1 << 20) + b"\n")
    with pytest.raises(StoreSettingsError, match="larger than"):
        read_settings(str(tmp_path / "large"))
