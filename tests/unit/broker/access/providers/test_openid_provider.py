"""A broker that accepts an issuer's tokens: keys that change, an issuer that is away, hangs, or answers too much."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from structlog.testing import capture_logs

from pulsar_barycenter.broker.access.authentication import Authentication
from pulsar_barycenter.broker.access.errors import AuthenticationError
from pulsar_barycenter.broker.access.principal import Principal
from pulsar_barycenter.broker.access.providers.openid_provider import OpenIDProvider
from pulsar_barycenter.broker.access.received_credentials import Credentials
from pulsar_barycenter.config.broker_conf import ConfigError, keys, parse_broker_conf
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.credentials.errors import KeyMaterialError
from pulsar_barycenter.credentials.tokens import create_token
from pulsar_barycenter.metadata.clock import SystemClock
from support.fake_issuer import (
    OTHER_RSA_KEY,
    FakeIssuer,
    access_token,
    fake_issuer,
    jwk,
    openid_config,
)
from support.proofs import KEY, SECRET_URL

NEW = {"key": OTHER_RSA_KEY, "key_id": "new"}


@asynccontextmanager
async def asking(issuer: FakeIssuer, **settings: Any) -> AsyncIterator[Authentication]:
    made = Authentication.of(openid_config(issuer.url, **settings), SystemClock())
    try:
        yield made
    finally:
        await made.close()


async def role(authentication: Authentication, token: str) -> str | None:
    return (await authentication.of_connection(Credentials("token", token.encode()))).principal.role


async def refusal(authentication: Authentication, token: str) -> str:
    with pytest.raises(AuthenticationError) as caught:
        await role(authentication, token)
    return str(caught.value)


async def test_a_token_proves_a_role_at_both_ports_and_keys_are_fetched_once() -> None:
    async with fake_issuer() as issuer, asking(issuer) as authentication:
        tokens = [issuer.token(sub=f"role-{number}") for number in range(20)]
        roles = await asyncio.gather(*(role(authentication, each) for each in tokens))
        assert roles == [f"role-{number}" for number in range(20)]
        headers = {"Authorization": f"Bearer {issuer.token()}"}
        assert await authentication.of_http(headers) == Principal("alice")
        assert issuer.fetches == 1
        session = await authentication.of_connection(Credentials("token", issuer.token(exp=2_000_000_000).encode()))
        assert session.expires_at_s == 2_000_000_000
        assert authentication.invitations == ('Bearer realm="barycenter"',)
        assert "an access token of an issuer" in await refusal_of_nothing(authentication)


async def refusal_of_nothing(authentication: Authentication) -> str:
    with pytest.raises(AuthenticationError) as caught:
        await authentication.of_http({})
    return str(caught.value)


async def test_a_new_key_is_fetched_and_one_that_is_gone_ends() -> None:
    async with fake_issuer() as issuer, asking(issuer, openid_key_id_cache_miss_refresh_seconds=0.0) as authentication:
        assert await role(authentication, issuer.token()) == "alice"
        issuer.keys = [jwk(OTHER_RSA_KEY, "new")]
        assert await role(authentication, issuer.token(**NEW)) == "alice"
        assert issuer.fetches == 2
        assert "no key with that id" in await refusal(authentication, issuer.token())


async def test_many_tokens_of_unknown_keys_ask_the_issuer_once() -> None:
    async with fake_issuer() as issuer, asking(issuer) as authentication:
        await role(authentication, issuer.token())
        forged = [issuer.token(key=OTHER_RSA_KEY, key_id=f"key-{number}") for number in range(200)]
        told = await asyncio.gather(*(refusal(authentication, each) for each in forged))
        assert {*told} == {"the token names a key, but its issuer has no key with that id"}
        assert issuer.fetches == 1, "asked for within openIDKeyIdCacheMissRefreshSeconds"
        assert await role(authentication, issuer.token()) == "alice"


async def test_tokens_of_strangers_ask_nobody() -> None:
    async with fake_issuer() as issuer, asking(issuer) as authentication:
        for wrong in (
            access_token("https://evil.example"),
            issuer.token(algorithm="none", key=None),
            issuer.token(key_id=None),
            "x",
        ):
            await refusal(authentication, wrong)
        assert issuer.asked == {}


async def test_a_broker_made_while_the_issuer_is_away_lets_in_once_it_is_there() -> None:
    times = _Times()
    async with fake_issuer() as issuer:
        provider = provider_by(issuer, times)
        issuer.status = 503
        shown = Credentials("token", issuer.token(now_s=times.wall_s).encode())
        with capture_logs() as logs:
            for _ in range(10):
                with pytest.raises(AuthenticationError, match="the keys of its issuer could not be fetched"):
                    await provider.identify(shown, times.wall_s)
        assert [each["event"] for each in logs] == ["issuer_keys_not_fetched"], "asked once, and told once"
        assert "status 503" in logs[0]["reason"]
        issuer.status = 200
        times.now_s += 5
        assert (await provider.identify(shown, times.wall_s)).role == "alice"
        await provider.close()


async def test_keys_go_on_while_the_issuer_is_away_until_they_expire() -> None:
    times = _Times()
    async with fake_issuer() as issuer:
        provider = provider_by(issuer, times)
        shown = Credentials("token", issuer.token(now_s=times.wall_s, exp=int(times.wall_s) + 10**6).encode())
        await provider.identify(shown, times.wall_s)
        issuer.status = 500
        for after_s in (0, 64_800, 10_000, 11_599):
            times.now_s += after_s
            assert (await provider.identify(shown, times.wall_s)).role == "alice"
        with pytest.raises(AuthenticationError, match="no key with that id"):
            await provider.identify(
                Credentials("token", issuer.token(now_s=times.wall_s, **NEW).encode()), times.wall_s
            )
        times.now_s += 10
        with pytest.raises(AuthenticationError, match="could not be fetched"):
            await provider.identify(shown, times.wall_s)
        await provider.close()


async def test_old_keys_are_fetched_anew_beside_those_that_are_used() -> None:
    times = _Times()
    async with fake_issuer() as issuer:
        provider = provider_by(issuer, times)
        shown = Credentials("token", issuer.token(now_s=times.wall_s, exp=int(times.wall_s) + 10**6).encode())
        await provider.identify(shown, times.wall_s)
        issuer.has_answered.clear()
        times.now_s += 64_800
        issuer.keys = []
        assert (await provider.identify(shown, times.wall_s)).role == "alice", "by the keys of before"
        async with asyncio.timeout(30):
            await issuer.has_answered.wait()
            while not await is_refused(provider, shown, times.wall_s):
                await asyncio.sleep(0)
        await provider.close()


async def is_refused(provider: OpenIDProvider, shown: Credentials, now_s: float) -> bool:
    try:
        await provider.identify(shown, now_s)
    except AuthenticationError:
        return True
    return False


class _Times:
    """A monotonic clock that a test sets, and a wall clock that stands still."""

    def __init__(self) -> None:
        self.now_s = 1_000.0
        self.wall_s = SystemClock().now_ms() / 1000

    def __call__(self) -> float:
        return self.now_s


def provider_by(issuer: FakeIssuer, times: _Times, **settings: Any) -> OpenIDProvider:
    return OpenIDProvider.of(openid_config(issuer.url, **settings), now_s=times)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"hangs": True}, "did not answer in time"),
        ({"padding": 300_000}, "more than 262,144 bytes"),
        ({"keys": [{}] * 101}, "more than 100 keys"),
        ({"moved_to": "http://127.0.0.1:1/jwks"}, "redirects are not followed"),
        ({"metadata": {"issuer": "https://other.example"}}, "field issuer differs from"),
        ({"metadata": {"jwks_uri": "file:///etc/passwd"}}, "is not an address of the form"),
        ({"metadata": {"jwks_uri": "http://user:word@127.0.0.1/"}}, "has a user name"),
        ({"metadata": {"jwks_uri": "http://127.0.0.1:1/"}}, "cannot be reached"),
    ],
)
async def test_an_issuer_that_answers_with_something_else_lets_nobody_in(change: dict[str, Any], reason: str) -> None:
    async with fake_issuer() as issuer:
        for name, value in change.items():
            setattr(issuer, name, value)
        async with asking(issuer, openid_http_read_timeout_millis=50) as authentication:
            with capture_logs() as logs:
                assert "could not be fetched" in await refusal(authentication, issuer.token())
        assert reason in logs[0]["reason"]
        assert "word" not in str(logs)


async def test_an_issuer_that_hangs_keeps_nobody_from_being_known_by_another_one() -> None:
    async with fake_issuer() as slow, fake_issuer() as issuer:
        settings = {"openid_allowed_token_issuers": (slow.url, issuer.url)}
        slow.hangs = True
        async with asking(issuer, **settings) as authentication:
            waiting = asyncio.create_task(role(authentication, slow.token()))
            assert await role(authentication, issuer.token()) == "alice"
            assert not waiting.done()
            await authentication.close()
            with pytest.raises(AuthenticationError):
                await waiting


async def test_each_issuer_signs_for_itself_alone() -> None:
    async with fake_issuer() as one, fake_issuer() as two:
        two.keys = [jwk(OTHER_RSA_KEY, "one")]
        async with asking(one, openid_allowed_token_issuers=(one.url, two.url)) as authentication:
            assert await role(authentication, two.token(key=OTHER_RSA_KEY)) == "alice"
            assert "not signed by the key" in await refusal(authentication, one.token(key=OTHER_RSA_KEY))
            assert "not signed by the key" in await refusal(authentication, two.token())


async def test_a_waiting_client_that_goes_away_leaves_the_others_waiting() -> None:
    async with fake_issuer() as issuer:
        issuer.hangs = True
        async with asking(issuer, openid_http_read_timeout_millis=60_000) as authentication:
            first = asyncio.create_task(role(authentication, issuer.token()))
            second = asyncio.create_task(role(authentication, issuer.token()))
            while not issuer.asked:
                await asyncio.sleep(0)
            first.cancel()
            await asyncio.wait({first})
            assert first.cancelled()
            assert not second.done()
            await authentication.close()
            with pytest.raises(AuthenticationError):
                await second


@pytest.mark.parametrize("names", [("token", "openid"), ("openid", "token", "openid")])
async def test_own_tokens_and_those_of_issuers_are_believed_side_by_side(names: tuple[str, ...]) -> None:
    async with fake_issuer() as issuer:
        settings = {"authentication_providers": names, "token_secret_key": SECRET_URL}
        async with asking(issuer, **settings) as authentication:
            assert await role(authentication, issuer.token()) == "alice"
            assert await role(authentication, create_token(KEY, "bob")) == "bob"
            assert "or an access token" in await refusal_of_nothing(authentication)
            assert len(authentication.invitations) == 1


async def test_a_token_is_judged_by_the_keys_of_whom_it_names_alone() -> None:
    """Neither an own key for an issuer, nor an issuer's key for this cluster."""
    async with fake_issuer() as issuer:
        settings = {"authentication_providers": ("token", "openid"), "token_secret_key": SECRET_URL}
        async with asking(issuer, **settings) as authentication:
            own = issuer.token(key=KEY.key, algorithm="HS256")
            assert "not signed with a public key's algorithm" in await refusal(authentication, own)
            assert "not signed with an algorithm of this cluster's key" in await refusal(
                authentication, access_token("other")
            )
            assert "not a JSON Web Token" in await refusal(authentication, "x")


async def test_a_new_token_of_the_same_role_goes_on_and_one_of_another_role_does_not() -> None:
    async with fake_issuer() as issuer, asking(issuer) as authentication:
        session = await authentication.of_connection(Credentials("token", issuer.token().encode()))
        later = issuer.token(exp=2_000_000_000)
        assert (
            await authentication.refreshed(session, Credentials("token", later.encode()))
        ).expires_at_s == 2_000_000_000
        with pytest.raises(AuthenticationError, match="another role"):
            await authentication.refreshed(session, Credentials("token", issuer.token(sub="bob").encode()))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"openid_allowed_token_issuers": ()}, "openIDAllowedTokenIssuers= is not allowed"),
        ({"openid_allowed_audiences": ()}, "openIDAllowedAudiences= is not allowed"),
        ({"openid_allowed_token_issuers": ("https://a", "http://b")}, "openIDAllowedTokenIssuers=http://b is not"),
        ({"openid_allowed_token_issuers": ("https://a?x=y",)}, "openIDAllowedTokenIssuers=https://a"),
        ({"openid_allowed_token_issuers": ("issuer",)}, "openIDAllowedTokenIssuers=issuer is not allowed"),
        ({"openid_allowed_token_issuers": ("https://u:word@a",)}, "openIDAllowedTokenIssuers=a is not allowed"),
    ],
)
def test_a_configuration_by_which_nobody_could_be_known_is_refused(settings: dict[str, Any], said: str) -> None:
    strict = {"openid_require_issuers_use_https": True, **settings}
    with pytest.raises(ConfigError, match=said) as caught:
        Authentication.of(openid_config("https://issuer.example", **strict), SystemClock())
    assert "word" not in str(caught.value)


def test_a_file_of_authorities_that_cannot_be_read_is_named_by_its_setting() -> None:
    config = openid_config("https://issuer.example", openid_token_issuer_trust_certs_file_path="/nowhere/ca.pem")
    with pytest.raises(KeyMaterialError, match=r"openIDTokenIssuerTrustCertsFilePath: cannot read /nowhere/ca\.pem"):
        Authentication.of(config, SystemClock())


async def test_keys_are_asked_for_by_https_where_that_is_asked() -> None:
    """The metadata came by https, and name an address of http."""
    config = openid_config("https://issuer.example", openid_require_issuers_use_https=True)
    provider = OpenIDProvider.of(config)
    assert provider._http.refusal("http://127.0.0.1/jwks") is not None
    assert provider._http.refusal("https://keys.example/jwks") is None
    await provider.close()


async def test_a_broker_that_asks_nobody_has_nothing_to_close() -> None:
    await Authentication.of(BrokerConfig(), SystemClock()).close()


def test_keys_and_defaults_are_those_of_pulsar() -> None:
    """By `AuthenticationProviderOpenID`; the last one may only be what it is by default."""
    lines = """
    openIDAllowedTokenIssuers=https://a, https://b/
    openIDAllowedAudiences=one,two
    openIDTokenIssuerTrustCertsFilePath=/etc/ca.pem
    """
    config = parse_broker_conf(lines, "broker.conf").config
    assert config.openid_allowed_token_issuers == ("https://a", "https://b/")
    assert config.openid_allowed_audiences == ("one", "two")
    assert config.openid_token_issuer_trust_certs_file_path == "/etc/ca.pem"
    for key, default in {
        "openIDRoleClaim": "sub",
        "openIDAcceptedTimeLeewaySeconds": 0,
        "openIDCacheSize": 5,
        "openIDCacheRefreshAfterWriteSeconds": 18 * 3600,
        "openIDCacheExpirationSeconds": 24 * 3600,
        "openIDKeyIdCacheMissRefreshSeconds": 300,
        "openIDHttpConnectionTimeoutMillis": 10_000,
        "openIDHttpReadTimeoutMillis": 10_000,
        "openIDRequireIssuersUseHttps": True,
        "openIDFallbackDiscoveryMode": "DISABLED",
    }.items():
        assert keys()[key].default == default
    with pytest.raises(ConfigError, match="openIDFallbackDiscoveryMode"):
        parse_broker_conf("openIDFallbackDiscoveryMode=KUBERNETES_DISCOVER_PUBLIC_KEYS", "broker.conf")
