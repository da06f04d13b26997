"""The URL of an Oxia store and its file; errors do not contain secrets."""

import pytest

from pulsar_barycenter.metadata.errors import StoreSettingsError
from pulsar_barycenter.metadata.oxia.oxia_settings import OxiaSettings, read_settings
from pulsar_barycenter.metadata.settings_file import MAX_FILE_BYTES


def written(folder, text):
    path = folder / "oxia.properties"
    path.write_text(text)
    return str(path)


def test_an_url_names_servers_a_namespace_and_a_folder_among_the_keys():
    """As Pulsar writes it, which knows one server and no folder."""
    assert read_settings("//one:1") == OxiaSettings(("one:1",))
    assert read_settings("//one:1/") == OxiaSettings(("one:1",), "default")
    assert read_settings("//one/prod") == OxiaSettings(("one:6648",), "prod")
    assert read_settings("//one:1,two,[::1]:3/prod/clusters/blue/") == OxiaSettings(
        ("one:1", "two:6648", "[::1]:3"), "prod", "/clusters/blue"
    )


@pytest.mark.parametrize(
    "url",
    [
        *("one:1", "/one:1", "//", "///default", "//one:x", "//one:70000", "//one:1,", "//,one:1", "//one:1?a"),
        *("//one:1//a", "//one:1/a:b", "//one:1/a#b", "//one:1/" + "a" * 256, "//one:1/a" + "/a" * 17),
        "//" + ",".join(["one:1"] * 65),
    ],
)
def test_other_urls_are_refused(url):
    with pytest.raises(StoreSettingsError, match="expected oxia://HOST:PORT/NAMESPACE"):
        read_settings(url)


def test_a_password_in_the_url_is_refused_and_not_repeated():
    with pytest.raises(StoreSettingsError, match="metadataStoreConfigPath") as refused:
        read_settings("//me:secret@one:1/default")
    assert "secret" not in str(refused.value)


def test_a_file_has_tls_and_a_token(tmp_path):
    for name in ("ca", "own", "key"):
        (tmp_path / f"{name}.pem").write_text(name)
    path = written(
        tmp_path,
        f"enableTls=true\nauthPluginClassName=io.oxia.client.auth.TokenAuthentication\nauthParams=token:abc.def\n"
        f"tlsTrustCertsFilePath={tmp_path}/ca.pem\ntlsCertificateFilePath={tmp_path}/own.pem\n"
        f"tlsKeyFilePath={tmp_path}/key.pem\nauthority=oxia.example\n",
    )
    settings = read_settings("//one:1", path)
    assert (settings.tls.enabled, settings.tls.authority) == (True, "oxia.example")
    assert (settings.tls.trusted_certificates, settings.tls.certificate, settings.tls.key) == (b"ca", b"own", b"key")
    assert settings.token_now() == "abc.def"
    assert "abc.def" not in repr(settings)
    assert "b'key'" not in repr(settings)


def test_a_token_in_a_file_is_read_whenever_it_is_asked_for(tmp_path):
    token = tmp_path / "a token"
    token.write_text("first\n")
    settings = read_settings("//one:1", written(tmp_path, f"authParams=file://{tmp_path}/a%20token\n"))
    assert settings.token_now() == "first"
    token.write_text("second")
    assert settings.token_now() == "second"
    token.unlink()
    with pytest.raises(StoreSettingsError, match="a token: the file cannot be read"):
        settings.token_now()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("requestTimeout=3\n", "unknown key requestTimeout"),
        ("enableTls=perhaps\n", "enableTls must be true or false"),
        ("tlsKeyFilePath=/k\n", "set both"),
        ("authParams=secret\n", "authParams must be token:TOKEN or file:///PATH"),
        ("authParams=token:\n", "authParams must be token:TOKEN or file:///PATH"),
        ("authParams=file://host/secret\n", "authParams must be token:TOKEN or file:///PATH"),
        ("authParams=token:sec\x07ret\n", "does not contain a token"),
        ("authParams=file:///nowhere/at/all\n", "cannot be read"),
        ("secret\n", "must have lines key=value"),
        ("x" * (MAX_FILE_BYTES + 1), "is larger than"),
    ],
)
def test_what_is_wrong_with_a_file_is_told_without_its_values(tmp_path, text, why):
    with pytest.raises(StoreSettingsError, match=why) as refused:
        read_settings("//one:1", written(tmp_path, text))
    assert "secret" not in str(refused.value)


def test_certificates_without_tls_are_a_mistake(tmp_path):
    (tmp_path / "ca.pem").write_text("ca")
    with pytest.raises(StoreSettingsError, match="certificates need enableTls=true"):
        read_settings("//one:1", written(tmp_path, f"tlsTrustCertsFilePath={tmp_path}/ca.pem\n"))
