"""How `barycenter admin` finds a cluster and its credentials."""

import base64
import json
import ssl
from pathlib import Path

import pytest
from click.testing import CliRunner

from pulsar_barycenter.admin.client_conf import CONTEXTS, ClientConfError, configured
from pulsar_barycenter.cli.main import main

TOKEN_PLUGIN = "org.apache.pulsar.client.impl.auth.AuthenticationToken"
SECRET = "very-secret"


def conf_file(folder: Path, text: str) -> dict[str, str]:
    file = folder / "client.conf"
    file.write_text(text)
    return {"PULSAR_CLIENT_CONF": str(file)}


def test_options_go_before_a_file_and_that_before_our_variables(tmp_path: Path) -> None:
    variables = {"BARYCENTER_URL": "b:8080", "BARYCENTER_TOKEN": SECRET}
    assert configured({}, {}, tmp_path).web_service_url == "http://localhost:8080"
    ours = configured({}, variables, tmp_path)
    assert (ours.web_service_url, ours.shows.headers()) == ("http://b:8080", {"Authorization": f"Bearer {SECRET}"})
    variables |= conf_file(
        tmp_path, "# of a file\nwebServiceUrl=http://c:8080/\nauthPlugin=\nbrokerServiceUrl=pulsar://c\n"
    )
    assert configured({}, variables, tmp_path).web_service_url == "http://c:8080"
    assert configured({"webServiceUrl": "https://d:8443"}, variables, tmp_path).web_service_url == "https://d:8443"


def test_a_context_is_one_of_pulsar_shells(tmp_path: Path) -> None:
    variables = conf_file(tmp_path, "webServiceUrl=http://c:8080")
    stored = {"configs": {"prod": {"name": "prod", "value": "webServiceUrl=http://p:8080\n"}}, "last": "prod"}
    (tmp_path / CONTEXTS).parent.mkdir()
    (tmp_path / CONTEXTS).write_text(json.dumps(stored))
    assert configured({}, variables, tmp_path, "prod").web_service_url == "http://p:8080"
    with pytest.raises(ClientConfError, match="the file has prod"):
        configured({}, variables, tmp_path, "test")
    (tmp_path / CONTEXTS).write_text("[]")
    with pytest.raises(ClientConfError, match="pulsar-shell"):
        configured({}, variables, tmp_path, "prod")


@pytest.mark.parametrize("form", ["token:{}", "{}", '{{"token":"{}"}}', "file://{file}"])
def test_tokens_are_told_in_any_form(tmp_path: Path, form: str) -> None:
    (tmp_path / "token").write_text(f"{SECRET}\n")
    params = form.format(SECRET, file=tmp_path / "token")
    text = f"authPlugin={TOKEN_PLUGIN}\nauthParams={params}"
    conf = configured({}, conf_file(tmp_path, text), tmp_path)
    assert conf.shows.headers() == {"Authorization": f"Bearer {SECRET}"}
    assert SECRET not in repr(conf)


def test_user_and_password(tmp_path: Path) -> None:
    params = '{"userId":"me","password":"very-secret"}'
    conf = configured({"authPlugin": "basic", "authParams": params}, {}, tmp_path)
    assert base64.b64decode(conf.shows.headers()["Authorization"].removeprefix("Basic ")) == b"me:very-secret"


def test_certificates_that_are_trusted_and_shown(tmp_path: Path) -> None:
    assert configured({}, {}, tmp_path).tls is None
    lax = configured({"tlsAllowInsecureConnection": True}, {}, tmp_path).tls
    assert lax is not None
    assert lax.context().verify_mode is ssl.CERT_NONE
    trusting = configured({}, conf_file(tmp_path, "tlsTrustCertsFilePath=/nowhere.pem"), tmp_path).tls
    assert trusting is not None
    assert trusting.trust_file == "/nowhere.pem"
    files = "tlsCertificateFilePath=/c.pem\ntlsKeyFilePath=/k.pem\n"
    by_plugin = "authPlugin=tls\nauthParams=tlsCertFile:/c.pem,tlsKeyFile:/k.pem\n"
    for text in (files, by_plugin):
        showing = configured({}, conf_file(tmp_path, text), tmp_path).tls
        assert showing is not None
        assert showing.files == ("/c.pem", "/k.pem")
    told = CliRunner().invoke(
        main,
        ["admin", "--admin-url", "https://127.0.0.1:1", "clusters", "list"],
        env=conf_file(tmp_path, "tlsTrustCertsFilePath=/nowhere.pem"),
    )
    assert (told.exit_code, "/nowhere.pem" in told.output) == (1, True)


@pytest.mark.parametrize(
    "text",
    [
        f"webServiceUrl=http://c:8080\n{SECRET}",
        f"authPlugin=token\nauthParams={{{SECRET}",
        f"authPlugin=token\nauthParams=file:///nowhere/{SECRET[:4]}",
        f"authPlugin=org.example.Own\nauthParams={SECRET}",
        "tlsAllowInsecureConnection=perhaps",
        "webServiceUrl=" + "x" * (1 << 20),
    ],
)
def test_what_cannot_be_used_is_said_without_secrets(tmp_path: Path, text: str) -> None:
    with pytest.raises(ClientConfError) as error:
        configured({}, conf_file(tmp_path, text), tmp_path).shows.headers()
    assert SECRET not in str(error.value)
    told = CliRunner().invoke(main, ["admin", "clusters", "list"], env=conf_file(tmp_path, text))
    assert (told.exit_code, SECRET in told.output) == (1, False)


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(ClientConfError, match="No such file"):
        configured({}, {"PULSAR_CLIENT_CONF": str(tmp_path / "none")}, tmp_path)
