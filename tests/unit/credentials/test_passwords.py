"""Files of htpasswd: the accepted hashes, and the errors of others."""

import base64

import pytest

from pulsar_barycenter.credentials.errors import KeyMaterialError
from pulsar_barycenter.credentials.passwords import Passwords, read_passwords

HASHES = {
    "apr1": "$apr1$abcdefgh$GQVaHFsauSKl0cgw4bVFJ/",
    "crypt": "abnqrLigH.z/s",
    "md5": "$1$abcdefgh$5XhrJpGu.bBXAZh4lT8oY/",
    "sha256": "$5$rounds=1000$abcdefgh$ErG1rn0GpODYQsD0nq3v3MbXT2boicTUhjw4zQRk1//",
    "sha512": "$6$rounds=1000$abcdefgh$"
    "1WhD5NSPfUW3vvjZt0oAl77wZvqZB/nJcOoNyFB4UHH98F.JCFg5bmMLyU4dXf5WU9tCX9pTKt8vIYOpqoRCm0",
}
"""Of the password `sesame`; `openssl passwd` makes the same."""


def passwords(text: str) -> Passwords:
    return read_passwords(f"data:;base64,{base64.b64encode(text.encode()).decode()}")


ALL = passwords("# users\n\n" + "".join(f"{user}:{hashed}\n" for user, hashed in HASHES.items()))


@pytest.mark.parametrize("user", HASHES)
def test_a_users_password_is_known_by_its_hash(user: str) -> None:
    assert ALL.are(user, "sesame")
    for wrong in ("", "Sesame", "sesame ", "sesame\0", "x" * 5000):
        assert not ALL.are(user, wrong)


def test_an_unknown_user_has_no_password() -> None:
    assert not ALL.are("nobody", "sesame")
    assert not ALL.are("", "")


def test_hashes_stand_in_no_text() -> None:
    assert HASHES["apr1"] not in repr(ALL)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("# nobody\n", "there are 0 users"),
        ("alice\n", "line 1 is not of the form user:hash"),
        (f"bob:{HASHES['apr1']}\n:x\n", "line 2 is not of the form"),
        ("alice:sesame\n", r"line 1 has a hash of an unsupported kind: only apr1 \(htpasswd -m\)"),
        ("alice:$2y$05$" + "a" * 53, "of an unsupported kind"),
        ("\ufffe".encode("utf-16").decode("latin-1"), "line 1 is not"),
    ],
)
def test_a_file_that_is_none_is_refused(text: str, said: str) -> None:
    with pytest.raises(KeyMaterialError, match=f"^basicAuthConf: .*{said}") as caught:
        passwords(text)
    assert "sesame" not in str(caught.value)
    with pytest.raises(KeyMaterialError, match="not UTF-8 text"):
        read_passwords("data:,%ff%fe")
