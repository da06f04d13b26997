"""A file of users and their passwords, as `htpasswd` writes it: lines `user:hash`.

Hashes are those that Pulsar takes, which `htpasswd -m` (apr1) and `htpasswd -d` (crypt) make, and crypt's others: MD5,
SHA-256, SHA-512. Checking one takes from half a millisecond to half a second, by its kind.
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
"""Characters of a password."""

_KINDS: Final = ("apr_md5_crypt", "md5_crypt", "sha256_crypt", "sha512_crypt", "des_crypt")


@cache
def _kinds() -> Any:
    from passlib.context import CryptContext  # takes longer than all else here, and only who has such a file needs it

    return CryptContext(_KINDS)


@dataclass(frozen=True, slots=True)
class Passwords:
    """The hash of each user's password; made by `read_passwords`."""

    hashes: Mapping[str, str] = field(repr=False)

    def are(self, user: str, password: str) -> bool:
        """Whether that is the password of that user; an unknown user takes as long."""
        known = self.hashes.get(user)
        if len(password) > MAX_PASSWORD or "\0" in password:
            return False
        if known is None:
            _kinds().verify(password, next(iter(self.hashes.values())))
            return False
        return bool(_kinds().verify(password, known))


def read_passwords(text: str, setting: str = "basicAuthConf") -> Passwords:
    """Read the file that `text` names, or holds in Base64; blank lines and those that begin with `#` say nothing.

    Raises:
        KeyMaterialError: it cannot be read, has no user or more than MAX_USERS, or a line is not `user:hash`.
    """
    try:
        lines = read_key_material(text, setting).decode().splitlines()
    except UnicodeDecodeError:
        raise KeyMaterialError(setting, "this is no text in UTF-8") from None
    hashes: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        user, colon, hashed = line.strip().partition(":")
        if not colon or not user:
            raise KeyMaterialError(
                setting, f"line {number} is not of the form user:hash; htpasswd -m makes such a file"
            )
        if _kinds().identify(hashed) is None:
            known = "apr1 (htpasswd -m) and crypt (htpasswd -d) are taken, as Pulsar does"
            raise KeyMaterialError(setting, f"line {number}: the hash of this user is of a kind that is not: {known}")
        hashes[user] = hashed
    if not 0 < len(hashes) <= MAX_USERS:
        raise KeyMaterialError(setting, f"there are {len(hashes)} users; there may be from 1 to {MAX_USERS:,}")
    return Passwords(hashes)
