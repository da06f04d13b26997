"""Users and passwords: a right one is recognized again at once, a wrong one is checked each time."""

import asyncio
import base64

import pytest

from pulsar_barycenter.broker.access.errors import AuthenticationError
from pulsar_barycenter.broker.access.providers.basic_provider import BasicProvider
from pulsar_barycenter.broker.access.received_credentials import Credentials, Identity
from pulsar_barycenter.config.broker_conf import ConfigError
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.credentials.passwords import Passwords


class Counted(Passwords):
    """Counts how often a password is checked."""

    checks = 0

    def are(self, user: str, password: str) -> bool:
        Counted.checks += 1
        return (user, password) == ("alice", "p:q")


@pytest.fixture
def provider() -> BasicProvider:
    Counted.checks = 0
    return BasicProvider(Counted({}))


def shown(text: str) -> Credentials:
    return Credentials("basic", text.encode())


async def test_a_right_password_is_checked_once(provider: BasicProvider) -> None:
    for _ in range(3):
        assert await provider.identify(shown("alice:p:q"), 0) == Identity("alice")
    assert Counted.checks == 1
    with pytest.raises(AuthenticationError, match="the user or the password is wrong"):
        await provider.identify(shown("alice:other"), 0)
    assert await provider.identify(shown("alice:p:q"), 0) == Identity("alice")
    assert Counted.checks == 2


async def test_wrong_ones_are_refused_alike(provider: BasicProvider) -> None:
    texts = ["alice:p", "bob:p:q", "alice:", ":p", "alice", "", "a\nb:p:q"]
    found = await asyncio.gather(*(provider.identify(shown(each), 0) for each in texts), return_exceptions=True)
    assert {type(each) for each in found} == {AuthenticationError}
    assert Counted.checks == 3


async def test_http_shows_user_and_password_in_base64(provider: BasicProvider) -> None:
    for text, data in ((base64.b64encode(b"alice:p:q").decode(), b"alice:p:q"), ("%%%", b"")):
        found = provider.credentials_of({"Authorization": f"Basic {text}"}, None)
        assert found is not None
        assert found.data == data
    assert provider.credentials_of({"Authorization": "Bearer x"}, None) is None
    assert provider.credentials_of({}, "alice") is None


def test_the_file_must_be_named() -> None:
    with pytest.raises(ConfigError, match="basicAuthConf"):
        BasicProvider.of(BrokerConfig())
