"""The authentication of clients by their credentials; a name alone is never accepted."""

from typing import Any

import pytest

from pulsar_barycenter.broker.access.authentication import ORIGINAL_PRINCIPAL, Authentication, Session
from pulsar_barycenter.broker.access.errors import AuthenticationError
from pulsar_barycenter.broker.access.principal import NOBODY, Principal
from pulsar_barycenter.broker.access.providers.catalogue import short_name_of
from pulsar_barycenter.broker.access.received_credentials import Credentials
from pulsar_barycenter.config.broker_conf import ConfigError
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.credentials.errors import KeyMaterialError
from support.proofs import NOW_S, SetClock, asking_config, token

NOTHING = Credentials("none")


def shown(role: str, **options: Any) -> Credentials:
    return Credentials("token", token(role, **options).encode())


def made(**settings: Any) -> Authentication:
    return Authentication.of(asking_config(**settings), SetClock())


async def principal(
    authentication: Authentication,
    show: Credentials,
    original: str | None = None,
    of_original: Credentials = NOTHING,
) -> Principal:
    return (await authentication.of_connection(show, original, of_original)).principal


async def test_while_it_is_off_everybody_is_nobody() -> None:
    off = Authentication.of(BrokerConfig(), SetClock())
    assert await principal(off, Credentials("token", b"whatever"), "admin") is NOBODY
    assert await off.of_http({"Authorization": "Bearer whatever"}) is NOBODY


async def test_a_token_proves_a_role_at_both_ports() -> None:
    authentication = made()
    assert await principal(authentication, shown("alice")) == Principal("alice")
    for scheme in ("Bearer", "bearer"):
        headers = {"Authorization": f"{scheme} {token('alice')}"}
        assert await authentication.of_http(headers) == Principal("alice")


@pytest.mark.parametrize("anonymous", ["", "guest"])
async def test_a_proof_that_is_not_believed_is_refused_even_where_strangers_may_come(anonymous: str) -> None:
    authentication = made(anonymous_user_role=anonymous)
    expired = shown("alice", expires_at_s=NOW_S)
    with pytest.raises(AuthenticationError, match="expired"):
        await authentication.of_connection(expired, None, NOTHING)
    with pytest.raises(AuthenticationError, match="expired"):
        await authentication.of_http({"Authorization": f"Bearer {expired.data.decode()}"})


async def test_who_shows_nothing_is_anonymous_or_told_what_to_show() -> None:
    for show in (NOTHING, Credentials("athenz", b"x")):
        assert await principal(made(anonymous_user_role="guest"), show) == Principal("guest")
        with pytest.raises(
            AuthenticationError, match="no credentials that it accepts: send the header Authorization: Bearer TOKEN"
        ):
            await principal(made(), show)
    assert await made(anonymous_user_role="guest").of_http({"Authorization": "Basic eA=="}) == Principal("guest")
    with pytest.raises(AuthenticationError, match="this broker requires authentication"):
        await made().of_http({})


async def test_only_a_proxy_speaks_for_somebody_else() -> None:
    authentication = made(proxy_roles=("proxy", "other-proxy"))
    assert await principal(authentication, shown("proxy"), "alice") == Principal("proxy", "alice")
    for role, original in (
        ("proxy", None),
        ("proxy", ""),
        ("proxy", "other-proxy"),
        ("proxy", "a\nb"),
        ("bob", "alice"),
    ):
        with pytest.raises(AuthenticationError):
            await principal(authentication, shown(role), original)


async def test_a_proxy_speaks_for_somebody_else_by_http() -> None:
    authentication = made(proxy_roles=("proxy",))

    async def who(role: str, original: str | None) -> Principal:
        headers = {"Authorization": f"Bearer {token(role)}"}
        return await authentication.of_http(headers | ({} if original is None else {ORIGINAL_PRINCIPAL: original}))

    assert await who("proxy", "alice") == Principal("proxy", "alice")
    assert await who("bob", "bob") == Principal("bob")
    for role, original in (("proxy", None), ("proxy", "proxy"), ("bob", "alice")):
        with pytest.raises(AuthenticationError):
            await who(role, original)


async def test_a_proxy_may_have_to_show_its_clients_proof() -> None:
    authentication = made(proxy_roles=("proxy",), authenticate_original_auth_data=True)
    proved = await authentication.of_connection(shown("proxy"), "root", shown("alice", expires_at_s=NOW_S + 9))
    assert proved == Session(Principal("proxy", "alice"), "token", NOW_S + 9, is_of_original=True)
    with pytest.raises(AuthenticationError):
        await principal(authentication, shown("proxy"), "root", NOTHING)
    with pytest.raises(AuthenticationError):
        await principal(authentication, shown("bob"), "root", shown("root"))


async def test_a_new_proof_must_be_of_the_same_role() -> None:
    clock = SetClock()
    authentication = Authentication.of(asking_config(proxy_roles=("proxy",)), clock)
    session = await authentication.of_connection(shown("alice", expires_at_s=NOW_S + 5), None, NOTHING)
    assert not authentication.has_expired(session)
    clock.now_s += 5
    assert authentication.has_expired(session)
    assert session.can_refresh
    renewed = await authentication.refreshed(session, shown("alice", expires_at_s=NOW_S + 60))
    assert (renewed.principal, renewed.expires_at_s) == (Principal("alice"), NOW_S + 60)
    for other in (shown("bob"), shown("alice", expires_at_s=NOW_S), NOTHING):
        with pytest.raises(AuthenticationError):
            await authentication.refreshed(session, other)
    named = await authentication.of_connection(shown("proxy", expires_at_s=NOW_S + 60), "alice", NOTHING)
    assert not named.can_refresh


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            {"authentication_providers": ()},
            "authenticationProviders= is not allowed: .* one or several of token, tls, basic",
        ),
        ({"authentication_providers": ("kerberos",)}, "authenticationProviders=kerberos is not allowed"),
        ({"token_secret_key": ""}, "tokenPublicKey= is not allowed: .* set if tokenSecretKey is blank"),
        ({"token_public_key": "file:///k"}, "tokenPublicKey=file:///k is not allowed: .*one of both"),
        ({"token_audience": "here"}, "tokenAudience=here is not allowed: .* set if tokenAudienceClaim is set"),
        ({"authentication_providers": ("tls",)}, "tlsTrustCertsFilePath= is not allowed: .* trusted authorities"),
        (
            {
                "authentication_providers": ("tls",),
                "tls_trust_certs_file_path": "/ca.pem",
                "tls_allow_insecure_connection": True,
            },
            "tlsAllowInsecureConnection=true is not allowed: .* must be false",
        ),
    ],
)
def test_a_configuration_by_which_nobody_could_be_known_is_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        made(**settings)


def test_a_key_that_cannot_be_read_is_named_by_its_setting() -> None:
    with pytest.raises(KeyMaterialError, match="tokenSecretKey: cannot read /nowhere/key: no such file"):
        made(token_secret_key="file:///nowhere/key")


@pytest.mark.parametrize("name", ["token", "org.apache.pulsar.broker.authentication.AuthenticationProviderToken"])
def test_providers_have_pulsars_names_and_short_ones(name: str) -> None:
    assert short_name_of(name) == "token"


async def test_proofs_are_counted_by_method_and_by_reasons_that_no_client_can_add_to() -> None:
    authentication = made()
    await principal(authentication, shown("alice"))
    for show in (
        shown("alice", expires_at_s=NOW_S),
        Credentials("token", b""),
        NOTHING,
        Credentials("a method of mine", b"x"),
    ):
        with pytest.raises(AuthenticationError):
            await authentication.of_connection(show, None, NOTHING)
    assert authentication.believed == {"token": 1}
    assert authentication.refused == {
        ("token", "INVALID_TOKEN"): 1,
        ("token", "INVALID_AUTH_DATA"): 1,
        ("none", "AUTH_REQUIRED"): 2,
    }
