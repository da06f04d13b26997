"""Keys are read from the configured source, and errors do not repeat them."""

import base64
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    PublicFormat,
)

from pulsar_barycenter.credentials.errors import KeyMaterialError
from pulsar_barycenter.credentials.key_material import MAX_BYTES, read_key_material
from pulsar_barycenter.credentials.token_keys import new_key_pair, private_key, public_key, secret_key

SECRET = b"\x00\xffa secret of more than thirty-two bytes"
ENCODED = base64.b64encode(SECRET).decode()


def test_a_key_is_in_a_file_or_in_the_text(tmp_path: Path) -> None:
    file = tmp_path / "a key"
    file.write_bytes(SECRET)
    quoted = str(file).replace(" ", "%20")
    for text in (f"file://{quoted}", f"file:{quoted}", str(file), f"data:;base64,{ENCODED}", ENCODED):
        assert read_key_material(text, "tokenSecretKey") == SECRET
    assert read_key_material("data:,a%20b", "s") == b"a b"
    assert read_key_material(f"data:application/octet-stream;base64,{ENCODED}", "s") == SECRET


def large(folder: Path) -> str:
    (folder / "large").write_bytes(bytes(MAX_BYTES + 1))
    return str(folder / "large")


def empty(folder: Path) -> str:
    (folder / "empty").touch()
    return f"file://{folder}/empty"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (lambda folder: f"file://{folder}/none", "cannot read .*none: no such file"),
        (lambda folder: f"{folder}/no.ne", r"there is no file .*no\.ne, and it is not a key in Base64"),
        (lambda _: "/nowhere", "there is no file /nowhere, and it is not a key in Base64"),
        (lambda folder: f"file://{folder}", "is a directory"),
        (lambda _: "sesame-open", "there is no file of that name, and it is not a key in Base64 either; set file:///"),
        (lambda _: "data:sesame", "data: has no comma"),
        (lambda _: "data:;base64,sesame!", "the text after data:;base64, is not Base64"),
        (lambda _: "data:,", "the value, or the file that it names, is empty"),
        (large, "a key is smaller"),
        (empty, "the value, or the file that it names, is empty"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, text: Callable[[Path], str], said: str) -> None:
    with pytest.raises(KeyMaterialError, match=f"^tokenSecretKey: .*{said}") as caught:
        read_key_material(text(tmp_path), "tokenSecretKey")
    assert "sesame" not in str(caught.value)


def url(data: bytes) -> str:
    return f"data:;base64,{base64.b64encode(data).decode()}"


def test_secret_keys_that_are_none() -> None:
    with pytest.raises(KeyMaterialError, match=r"32 bytes or more, and the given key has 5; .*create-secret-key"):
        secret_key(url(b"short"))
    _, public = new_key_pair("ES256")
    pem = b"-----BEGIN PUBLIC KEY-----\n" + base64.b64encode(public) + b"\n-----END PUBLIC KEY-----\n"
    with pytest.raises(KeyMaterialError, match="a public key belongs in tokenPublicKey"):
        secret_key(url(pem))
    assert public_key(url(pem), "ES256").algorithms == ("ES256",)


def test_keys_of_another_kind_are_refused() -> None:
    private, public = new_key_pair("ES256")
    with pytest.raises(KeyMaterialError, match="RS256 needs an RSA key"):
        public_key(url(public))
    with pytest.raises(KeyMaterialError, match="ES384 needs a key of the curve secp384r1"):
        private_key(url(private), "ES384", "--private-key")
    with pytest.raises(KeyMaterialError, match="is not a public key"):
        public_key(url(private))
    with pytest.raises(KeyMaterialError, match="is not a private key"):
        private_key(url(public), "ES256", "--private-key")
    weak = rsa.generate_private_key(public_exponent=65537, key_size=1024).public_key()
    with pytest.raises(KeyMaterialError, match="2048 bits or more, and the given key has 1024"):
        public_key(url(weak.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)))
    encrypted = ec.generate_private_key(ec.SECP256R1()).private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"sesame")
    )
    with pytest.raises(KeyMaterialError, match="encrypted; give a private key without a password"):
        private_key(url(encrypted), "ES256", "--private-key")
