"""The URL of an etcd store and its file; errors do not contain secrets."""

import pytest

from pulsar_barycenter.metadata.errors import StoreSettingsError
from pulsar_barycenter.metadata.etcd.etcd_settings import EtcdSettings, read_settings
from pulsar_barycenter.metadata.grpc_client.server_channel import Tls
from pulsar_barycenter.metadata.settings_file import MAX_FILE_BYTES


def test_an_url_names_servers_and_a_folder_among_the_keys():
    assert read_settings("http://one:1,http://two,http://[::1]:3") == EtcdSettings(("one:1", "two:2379", "[::1]:3"))
    assert read_settings("https://one:1").tls.enabled
    assert read_settings("http://one:1/a/b").chroot == "/a/b"
    assert read_settings("http://one:1,http://two:2/clusters/blue/").chroot == "/clusters/blue"


@pytest.mark.parametrize(
    "url",
    [
        *(
            "one:1",
            "//one:1",
            "http://",
            "http://one:x",
            "http://one:70000",
            "http://one:1,",
            ",http://one:1",
            "ftp://one:1",
        ),
        *("http://one:1/a,http://two:2", "http://one:1/a:b", "http://one:1//a", "http://one:1?a", "http://one:1#a"),
        *("http://one:1,https://two:2", "http://one:1/" + "a" * 256, "http://one:1" + "/a" * 17),
    ],
)
def test_other_urls_are_refused(url):
    with pytest.raises(StoreSettingsError, match=r"expected etcd:http|cannot be mixed"):
        read_settings(url)


def test_a_password_in_the_url_is_refused_and_not_repeated():
    with pytest.raises(StoreSettingsError, match="metadataStoreConfigPath") as refused:
        read_settings("http://me:hush@one:1")
    assert "hush" not in str(refused.value)


def test_the_file_has_pulsars_keys_and_user_and_password(tmp_path):
    for name in ("ca", "key", "certificate"):
        (tmp_path / name).write_text(f"PEM of {name}")
    file = tmp_path / "etcd.yaml"
    file.write_text(
        f"useTls: true\ntlsProvider: OPENSSL\ntlsTrustCertsFilePath: {tmp_path}/ca\ntlsKeyFilePath: {tmp_path}/key\n"
        f"tlsCertificateFilePath: {tmp_path}/certificate\nauthority: store.example\nuser: broker\npassword: hush\n"
    )
    settings = read_settings("http://one:1", str(file))
    assert settings == EtcdSettings(
        ("one:1",),
        tls=Tls(
            enabled=True,
            trusted_certificates=b"PEM of ca",
            certificate=b"PEM of certificate",
            key=b"PEM of key",
            authority="store.example",
        ),
        user="broker",
        password="hush",
    )
    assert "hush" not in repr(settings)
    assert "PEM of key" not in repr(settings)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("password: [hush\n", "is not YAML"),
        ("useTls: hush\n", r"Expected `bool`, got `str` - at `\$.useTls`"),
        ("user: broker\npassword: 1234\n", r"Expected `str.*at `\$.password`"),
        ("useTLS: true\n", "unknown field `useTLS`"),
        ("- hush\n", "Expected `object`"),
        ("user: broker\n", "set both user and password"),
        ("tlsKeyFilePath: /nowhere\n", "set both"),
        ("tlsTrustCertsFilePath: /nowhere/hush.pem\n", "cannot be read"),
        ("#" * (MAX_FILE_BYTES + 1), "is larger than"),
    ],
)
def test_a_file_that_cannot_be_is_refused_without_its_content(tmp_path, content, why):
    file = tmp_path / "etcd.yaml"
    file.write_text(content)
    with pytest.raises(StoreSettingsError, match=why) as refused:
        read_settings("http://one:1", str(file))
    assert "hush" not in refused.value.detail
    assert "1234" not in refused.value.detail


def test_a_file_that_is_not_there_is_told():
    with pytest.raises(StoreSettingsError, match=r"/nowhere/etcd.yaml: the file cannot be read"):
        read_settings("http://one:1", "/nowhere/etcd.yaml")
