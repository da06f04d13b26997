"""Authenticates users by passwords. Source: Pulsar's `AuthenticationProviderBasic`.

Checking the hash of a password takes long on purpose. So it is done in threads, for a few passwords at once. For a
password that was right the provider keeps a digest under a key of this process, so that only the first request of a
user is slow.
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
from pulsar_barycenter.broker.access.received_credentials import Credentials, Identity, after_scheme, is_role
from pulsar_barycenter.config.broker_conf import ConfigError
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.credentials.passwords import Passwords, read_passwords

_CONCURRENT_HASHES: Final = 2
"""The number of passwords that are checked in parallel. Others wait, so that guessing takes no more processor time."""


class BasicProvider:
    method = "basic"
    invitation = 'Basic realm="barycenter", charset="UTF-8"'
    wanted = "send the header Authorization: Basic, with user and password"

    def __init__(self, passwords: Passwords) -> None:
        self._passwords = passwords
        self._key = secrets.token_bytes(32)
        self._known: dict[str, bytes] = {}
        """The digest of the password, by user, of users who have sent the right one."""
        self._turns = asyncio.Semaphore(_CONCURRENT_HASHES)

    @classmethod
    def of(cls, config: BrokerConfig) -> "BasicProvider":
        """Return a provider with the passwords of the file that the configuration names.

        Raises:
            ConfigError: `basicAuthConf` is blank.
            KeyMaterialError: the file cannot be used.
        """
        if not config.basic_auth_conf:
            raise ConfigError(
                "basicAuthConf",
                "",
                "the address of an htpasswd file with the users, such as file:///etc/pulsar/.htpasswd",
            )
        return cls(read_passwords(config.basic_auth_conf))

    def credentials_of(self, headers: Mapping[str, str], certificate_name: str | None) -> Credentials | None:
        data = after_scheme(headers, "basic")
        if data is None:
            return None
        try:
            return Credentials(self.method, base64.b64decode(data, validate=True))
        except binascii.Error:
            return Credentials(self.method)

    async def identify(self, credentials: Credentials, now_s: float) -> Identity:
        user, colon, password = credentials.data.decode(errors="replace").partition(":")
        if not colon or not is_role(user):
            raise AuthenticationError("the credentials do not have the form user:password", "INVALID_AUTH_DATA")
        digest = hmac.digest(self._key, credentials.data, hashlib.sha256)
        if hmac.compare_digest(self._known.get(user, b""), digest):
            return Identity(user)
        async with self._turns:
            is_right = await asyncio.to_thread(self._passwords.are, user, password)
        if not is_right:
            raise AuthenticationError("the user or the password is wrong", "INVALID_TOKEN")
        self._known[user] = digest
        return Identity(user)

    async def close(self) -> None:
        """Do nothing: this provider has no background work."""
