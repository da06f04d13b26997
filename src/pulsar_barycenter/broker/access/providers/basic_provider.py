"""Users and passwords. Source: Pulsar's `AuthenticationProviderBasic`.

A password is checked in a thread, a few at once, since its hash is made to be slow; one that was right is known again
by a digest under a key of this process, so that only the first request of a user waits.
"""

import asyncio
import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Mapping
from typing import Final

from pulsar_barycenter.broker.access.errors import AuthenticationError
from pulsar_barycenter.broker.access.shown import Identity, Shown, after_scheme, is_role
from pulsar_barycenter.config.broker_conf import ConfigError
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.credentials.passwords import Passwords, read_passwords

_AT_ONCE: Final = 2
"""Passwords that are checked side by side; more wait, and strangers who guess take no more of the processor."""


class BasicProvider:
    method = "basic"
    invitation = 'Basic realm="barycenter", charset="UTF-8"'
    wanted = "send the header Authorization: Basic, with user and password"

    def __init__(self, passwords: Passwords) -> None:
        self._passwords = passwords
        self._key = secrets.token_bytes(32)
        self._known: dict[str, bytes] = {}
        """The digest of the password of each user who showed it."""
        self._turns = asyncio.Semaphore(_AT_ONCE)

    @classmethod
    def of(cls, config: BrokerConfig) -> "BasicProvider":
        """Read the file that the configuration names.

        Raises:
            ConfigError: it names none.
            KeyMaterialError: the file cannot be used.
        """
        if not config.basic_auth_conf:
            raise ConfigError(
                "basicAuthConf", "", "file:///path of a file of htpasswd, for clients to be known by users"
            )
        return cls(read_passwords(config.basic_auth_conf))

    def shown_by(self, headers: Mapping[str, str], certificate_name: str | None) -> Shown | None:
        data = after_scheme(headers, "basic")
        if data is None:
            return None
        try:
            return Shown(self.method, base64.b64decode(data, validate=True))
        except binascii.Error:
            return Shown(self.method)

    async def identify(self, shown: Shown, now_s: float) -> Identity:
        user, colon, password = shown.data.decode(errors="replace").partition(":")
        if not colon or not is_role(user):
            raise AuthenticationError("there is no user and password of the form user:password", "INVALID_AUTH_DATA")
        digest = hmac.digest(self._key, shown.data, hashlib.sha256)
        if hmac.compare_digest(self._known.get(user, b""), digest):
            return Identity(user)
        async with self._turns:
            is_right = await asyncio.to_thread(self._passwords.are, user, password)
        if not is_right:
            raise AuthenticationError("the user or the password is wrong", "INVALID_TOKEN")
        self._known[user] = digest
        return Identity(user)

    async def close(self) -> None:
        """Nothing goes on by itself."""
