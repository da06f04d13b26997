"""The credentials of a client, by the parameters of Pulsar's clients."""

import asyncio
from pathlib import Path

import pytest

from pulsar_barycenter.credentials.client_authentication import (
    NO_AUTHENTICATION,
    is_no_less_secret,
    parse_authentication,
    parse_authentication_text,
)
from pulsar_barycenter.credentials.errors import KeyMaterialError
from support.fake_issuer import fake_issuer, oauth2

TOKEN = "org.apache.pulsar.client.impl.auth.AuthenticationToken"


@pytest.mark.parametrize("parameters", ["token:sesame", '{"token": "sesame"}', "sesame", " token:sesame".strip()])
def test_a_token_is_shown_at_both_ports(parameters: str) -> None:
    shows = parse_authentication(TOKEN, parameters)
    assert (shows.method, shows.auth_data()) == ("token", b"sesame")
    assert shows.headers() == {"Authorization": "Bearer sesame"}
    assert "sesame" not in repr(shows)


def test_a_tokens_file_is_read_each_time(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("first\n")
    shows = parse_authentication("token", f"file://{file}")
    assert shows.auth_data() == b"first"
    file.write_text("second\n")
    assert shows.auth_data() == b"second"
    file.unlink()
    with pytest.raises(KeyMaterialError, match=r"cannot read .*token: no such file"):
        shows.headers()


def test_a_user_is_shown_at_both_ports() -> None:
    shows = parse_authentication(
        "org.apache.pulsar.client.impl.auth.AuthenticationBasic", '{"userId": "u", "password": "p:q"}'
    )
    assert (shows.method, shows.auth_data()) == ("basic", b"u:p:q")
    assert shows.headers() == {"Authorization": "Basic dTpwOnE="}


def test_a_certificate_is_shown_by_tls_alone() -> None:
    shows = parse_authentication("tls", "tlsCertFile:/c.pem,tlsKeyFile:/k.pem")
    assert (shows.certificate_file, shows.key_file) == ("/c.pem", "/k.pem")
    assert (shows.method, shows.auth_data(), shows.headers()) == ("tls", None, {})


def test_nobody_shows_nothing() -> None:
    assert parse_authentication("", "") is NO_AUTHENTICATION
    assert (NO_AUTHENTICATION.method, NO_AUTHENTICATION.auth_data(), NO_AUTHENTICATION.headers()) == ("none", None, {})


@pytest.mark.parametrize(
    ("plugin", "parameters", "said"),
    [
        ("athenz", "sesame", "'athenz' is unknown; known are token, basic, tls and oauth2"),
        ("token", "", "there is no token"),
        ("token", "token:sesame\nX-Header: y", "there is no token"),
        ("token", '{"sesame": 1}', "write token:TEXT"),
        ("token", "file:///nowhere/token", "cannot read /nowhere/token"),
        ("basic", "sesame", "write .*userId"),
        ("basic", '{"userId": "a:b", "password": "sesame"}', "must not contain a colon"),
        ("tls", "tlsCertFile:/sesame", "write tlsCertFile:"),
    ],
)
def test_parameters_of_another_form_are_refused(plugin: str, parameters: str, said: str) -> None:
    with pytest.raises(KeyMaterialError, match=f"^--auth-params: .*{said}") as caught:
        parse_authentication(plugin, parameters, "--auth-params")
    assert "sesame" not in str(caught.value)


def test_what_came_by_tls_goes_on_by_tls_alone() -> None:
    plain, secret = "http://b:8080", "https://b:8443"
    for scheme, url, may in (("https", secret, True), ("https", plain, False), ("http", plain, True)):
        assert is_no_less_secret(scheme, url) is may
    assert is_no_less_secret("http", secret)


async def test_a_single_text_is_a_token_or_says_who_gives_one() -> None:
    assert parse_authentication_text("sesame", "BARYCENTER_TOKEN").auth_data() == b"sesame"
    assert parse_authentication_text('{"token": "sesame"}', "BARYCENTER_TOKEN").auth_data() == b"sesame"
    async with fake_issuer() as issuer:
        shows = parse_authentication_text(oauth2(issuer.url), "BARYCENTER_TOKEN")
        token = await asyncio.to_thread(shows.token_in_thread)
        assert (shows.auth_data() or b"").decode() == token
        assert parse_authentication("basic", '{"userId": "u", "password": "p"}').token_in_thread() == "u:p"
