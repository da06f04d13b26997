"""A file of users and passwords in the format of `htpasswd`: lines `user:hash`.

The hashes are those that Pulsar accepts: apr1 (`htpasswd -m`), crypt (`htpasswd -d`), and crypt's MD5, SHA-256 and
SHA-512. Verifying one takes from half a millisecond to half a second, depending on its kind.

Source: Pulsar's `AuthenticationProviderBasic`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

from pulsar_barycenter.credentials.errors import KeyMaterialError
from pulsar_barycenter.credentials.key_material import read_key_material

MAX_USERS: Final = 100_000
MAX_PASSWORD: Final = 4_096
"""The maximum number of characters of a password."""

_KINDS: Final = ("apr_md5_crypt", "md5_crypt", "sha256_crypt", "sha512_crypt", "des_crypt")


@cache
def _kinds() -> Any:
    from passlib.context import CryptContext  # this import is slow, and only users of such a file need it

    return CryptContext(_KINDS)


@dataclass(frozen=True, slots=True)
class Passwords:
    """The users and the hash of each user's password. Created by `read_passwords`."""

    hashes: Mapping[str, str] = field(repr=False)

    def are(self, user: str, password: str) -> bool:
        """Return whether `password` is the password of `user`.

        For an unknown user the result is False, and the check takes the same time, so that a client cannot find out
        which users exist.
        """
        known = self.hashes.get(user)
        if len(password) > MAX_PASSWORD or "\0" in password:
            return False
        if known is None:
            _kinds().verify(password, next(iter(self.hashes.values())))
            return False
        return bool(_kinds().verify(password, known))


def read_passwords(text: str, setting: str = "basicAuthConf") -> Passwords:
    """Parse a file of users and passwords. `text` refers to the file, or contains it in Base64.

    Blank lines and lines that begin with `#` are ignored.

    Raises:
        KeyMaterialError: the file cannot be read, has no user or more than MAX_USERS, or a line is not `user:hash`.
    """
    try:
        lines = read_key_material(text, setting).decode().splitlines()
    except UnicodeDecodeError:
        raise KeyMaterialError(setting, "the file is not UTF-8 text") from None
    hashes: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        user, colon, hashed = line.strip().partition(":")
        if not colon or not user:
            raise KeyMaterialError(
                setting, f"line {number} is not of the form user:hash; htpasswd -m creates such a file"
            )
        if _kinds().identify(hashed) is None:
            known = "apr1 (htpasswd -m) and crypt (htpasswd -d) are supported, as in Pulsar"
            raise KeyMaterialError(setting, f"line {number} has a hash of an unsupported kind: only {known}")
        hashes[user] = hashed
    if not 0 < len(hashes) <= MAX_USERS:
        raise KeyMaterialError(
            setting, f"there are {len(hashes)} users in the password file; from 1 to {MAX_USERS:,} are allowed"
        )
    return Passwords(hashes)
