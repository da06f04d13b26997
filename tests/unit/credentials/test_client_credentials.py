"""Tokens from an issuer: how they are requested, how long they are used, and the errors without one."""

import asyncio
import json
import ssl
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from pulsar_barycenter.admin.client import AdminClient
from pulsar_barycenter.admin.errors import AdminRequestError
from pulsar_barycenter.credentials.client_authentication import parse_authentication
from pulsar_barycenter.credentials.client_credentials import ClientCredentials, ObtainedToken
from pulsar_barycenter.credentials.errors import IssuerError, KeyMaterialError, NoTokenError
from pulsar_barycenter.credentials.issuer_http import IssuerHttp
from pulsar_barycenter.credentials.issuers import MAX_DOCUMENT_BYTES
from support.authorities import Authority
from support.fake_issuer import AUDIENCE, CLIENT, fake_issuer, oauth2, private_key_url

PLUGIN = "org.apache.pulsar.client.impl.auth.oauth2.AuthenticationOAuth2"
SECRET = CLIENT["client_secret"]


class SetTime:
    """A monotonic clock that a test sets."""

    def __init__(self) -> None:
        self.now_s = 1_000.0

    def __call__(self) -> float:
        return self.now_s


async def test_a_token_is_obtained_and_shown_at_both_ports() -> None:
    async with fake_issuer() as issuer:
        shows = parse_authentication(PLUGIN, oauth2(issuer.url, scope="cluster"))
        with pytest.raises(KeyMaterialError, match="there is no token yet"):
            shows.headers()
        await shows.renew()
        token = (shows.auth_data() or b"").decode()
        assert (shows.method, shows.headers()) == ("token", {"Authorization": f"Bearer {token}"})
        assert issuer.forms == [
            {"grant_type": "client_credentials", **CLIENT, "audience": AUDIENCE, "scope": "cluster"},
        ]
        assert SECRET not in repr(shows) + repr(shows.obtained.credentials)  # type: ignore[union-attr]
        assert token not in repr(shows)


@pytest.mark.parametrize("name", ["file://{}", "file:{}", "{}"])
async def test_credentials_are_a_file_that_may_be_renewed(tmp_path: Path, name: str) -> None:
    file = tmp_path / "credentials.json"
    file.write_text(json.dumps({**CLIENT, "client_email": "a@b", "issuer_url": "unused"}))
    async with fake_issuer() as issuer:
        said = json.dumps({"type": "client_credentials", "issuer_url": issuer.url, "private_key": name.format(file)})
        credentials = ClientCredentials.of(said, "authParams")
        await credentials.token()
        file.write_text(json.dumps({**CLIENT, "client_id": "bob"}))
        await credentials.token()
        assert [form["client_id"] for form in issuer.forms] == ["alice", "bob"]
        assert "audience" not in issuer.forms[0]
        file.unlink()
        with pytest.raises(KeyMaterialError):
            await credentials.token()


async def test_a_token_is_shown_until_nine_tenths_of_its_time_are_over() -> None:
    clock = SetTime()
    async with fake_issuer() as issuer:
        issuer.lifetime_s = "100"  # some issuers say it as a text
        obtained = ObtainedToken(ClientCredentials.of(oauth2(issuer.url), "authParams"), clock)
        await asyncio.gather(*(obtained.renew() for _ in range(20)))
        first = obtained.token
        clock.now_s += 89.9
        await obtained.renew()
        assert (obtained.token, len(issuer.forms)) == (first, 1)
        clock.now_s += 0.1
        await obtained.renew()
        assert (obtained.token != first, len(issuer.forms)) == (True, 2)


async def test_a_token_that_a_broker_wants_no_more_is_obtained_anew_once() -> None:
    async with fake_issuer() as issuer:
        shows = parse_authentication("oauth2", oauth2(issuer.url))
        await shows.renew()
        first = shows.auth_data()
        await asyncio.gather(*(shows.renew(not_this=first) for _ in range(5)))
        assert shows.auth_data() != first
        assert len(issuer.forms) == 2


async def test_a_token_goes_on_while_the_issuer_is_away_and_ends_with_its_time() -> None:
    clock = SetTime()
    async with fake_issuer() as issuer:
        issuer.lifetime_s = 100
        obtained = ObtainedToken(ClientCredentials.of(oauth2(issuer.url), "authParams"), clock)
        await obtained.renew()
        first = obtained.token
        issuer.status = 503
        clock.now_s += 95
        await obtained.renew()
        assert obtained.token == first
        clock.now_s += 5
        with pytest.raises(NoTokenError, match="must answer with status 200, but answered with status 503"):
            await obtained.renew()
        asked = sum(issuer.asked.values())
        for _ in range(10):
            with pytest.raises(NoTokenError):
                await obtained.renew()
        assert sum(issuer.asked.values()) == asked, "an issuer that gave none is not asked again at once"
        issuer.status = 200
        clock.now_s += 1
        await obtained.renew()
        assert obtained.token != first


def test_it_is_shown_in_several_loops_one_after_the_other() -> None:
    """As commands and the stock client's threads do."""

    async def serve(shows: Any) -> None:
        await asyncio.gather(*(shows.renew() for _ in range(3)))

    async def all_of_it() -> int:
        async with fake_issuer() as issuer:
            shows = parse_authentication("oauth2", oauth2(issuer.url))
            await serve(shows)
            await asyncio.to_thread(asyncio.run, serve(shows))
            return len(issuer.forms)

    assert asyncio.run(all_of_it()) == 1


async def test_a_wrong_secret_is_told_without_it() -> None:
    async with fake_issuer() as issuer:
        wrong = private_key_url(client_secret="guess-of-mallory")
        shows = parse_authentication("oauth2", oauth2(issuer.url, privateKey=wrong), "authParams")
        with pytest.raises(NoTokenError, match=r"status 401 \(invalid_client\)") as caught:
            await shows.renew()
        assert "guess-of-mallory" not in str(caught.value)
        client = AdminClient(shows=shows)
        with pytest.raises(AdminRequestError, match="invalid_client"):
            await client.call("GET", issuer.url, "/admin/v2/clusters")
        await client.close()


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({"token_endpoint": None}, "has no token_endpoint"),
        ({"token_endpoint": 1}, "has no token_endpoint"),
        ({"token_endpoint": "http://192.0.2.1/token"}, "must use https"),
        ({"token_endpoint": "ftp://127.0.0.1/token"}, "is not an address"),
        ({"token_endpoint": "http://127.0.0.1:1/token"}, "cannot be reached"),
        ({"padding": "x" * MAX_DOCUMENT_BYTES}, "more than 262,144 bytes"),
    ],
)
async def test_metadata_that_lead_nowhere_are_told(answer: dict[str, Any], said: str) -> None:
    async with fake_issuer() as issuer:
        issuer.metadata = answer
        with pytest.raises(NoTokenError, match=said):
            await parse_authentication("oauth2", oauth2(issuer.url)).renew()
        assert issuer.forms == []


@pytest.mark.parametrize("lifetime_s", [None, 0, -1, 1e300, "x", []])
async def test_any_lifetime_is_bounded(lifetime_s: Any) -> None:
    async with fake_issuer() as issuer:
        issuer.lifetime_s = lifetime_s
        credentials = ClientCredentials.of(oauth2(issuer.url), "authParams")
        if isinstance(lifetime_s, str | list):
            with pytest.raises(NoTokenError, match="returned no access_token"):
                await credentials.token()
        else:
            assert 0 <= (await credentials.token())[1] <= 366 * 86_400


async def test_a_token_that_is_none_is_not_shown() -> None:
    for claims in ({"x": "y" * 9000},):
        async with fake_issuer() as issuer:
            issuer.claims = claims
            with pytest.raises(NoTokenError, match="an access_token that cannot be used"):
                await parse_authentication("oauth2", oauth2(issuer.url)).renew()


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ("sesame", "write .*issuerUrl"),
        ('{"issuerUrl": 1}', "write .*issuerUrl"),
        (oauth2(""), "issuerUrl is missing"),
        (oauth2("https://i", privateKey=""), "privateKey is missing"),
        (oauth2("https://i", type="authorization_code"), "type must be client_credentials"),
        (
            oauth2("https://i", tokenEndpointAuthMethod="tls_client_auth"),
            "tokenEndpointAuthMethod must be client_secret_post",
        ),
        (oauth2("https://i", scope="x" * 2001), "more than 2,000 characters"),
        (oauth2("https://i", connectTimeout="10"), "connectTimeout must be a whole number of seconds"),
        (oauth2("https://i", readTimeout="PT0S"), "readTimeout must be a whole number of seconds"),
        (oauth2("https://i", trustCertsFilePath="/nowhere/ca.pem"), "cannot read /nowhere/ca.pem"),
        (oauth2("https://i", privateKey="file:///nowhere/sesame.json"), "cannot read /nowhere"),
        (oauth2("https://i", privateKey="data:application/json;base64,e30="), "write .*client_id"),
        (oauth2("https://i", privateKey=private_key_url(type="jwt")), "write .*client_id"),
        (oauth2("https://i", privateKey=private_key_url(client_id="")), "write .*client_id"),
        (oauth2("http://issuer.example"), "must use https"),
        (oauth2("http://127.0.0.1.example"), "must use https"),
        (oauth2("https://user:sesame@i"), "has a user name"),
        (oauth2("issuer"), "not an address of the form"),
        (oauth2("https://i:port"), "not an address"),
    ],
)
def test_parameters_of_another_form_are_refused(parameters: str, said: str) -> None:
    with pytest.raises(KeyMaterialError, match=f"^authParams.*{said}") as caught:
        parse_authentication(PLUGIN, parameters, "authParams")
    assert SECRET not in str(caught.value)
    assert "user:" not in str(caught.value)


def test_http_leads_elsewhere_where_that_is_said() -> None:
    made = ClientCredentials.of(oauth2("http://keycloak:8080/realms/one", barycenterHttpAllowed="true"), "authParams")
    assert made.http.refusal("http://keycloak:8080/token") is None
    assert made.metadata_url == "http://keycloak:8080/realms/one/.well-known/openid-configuration"
    moved = ClientCredentials.of(oauth2("https://i/", wellKnownMetadataPath="/.well-known/x"), "authParams")
    assert moved.metadata_url == "https://i/.well-known/x"


async def test_no_redirect_is_followed_and_nothing_is_waited_for_without_end() -> None:
    http = IssuerHttp(read_timeout_s=0.05, asks_https=False)
    async with fake_issuer() as other, fake_issuer() as issuer:
        issuer.moved_to = f"{other.url}/jwks"
        with pytest.raises(IssuerError, match="302: redirects are not followed"):
            await http.get(issuer.url)
        with pytest.raises(IssuerError, match="302: redirects are not followed"):
            await http.post(issuer.url, CLIENT)
        assert other.asked == {}
        issuer.moved_to, issuer.hangs = "", True
        with pytest.raises(IssuerError, match="did not answer in time"):
            await http.get(issuer.url)
        issuer.hangs, issuer.padding = False, MAX_DOCUMENT_BYTES
        with pytest.raises(IssuerError, match="more than 262,144 bytes"):
            await http.get(f"{issuer.url}/jwks")


async def test_an_answer_that_trickles_ends_with_the_time_of_all_of_it() -> None:
    """Each piece comes in time, and there is no end to them."""

    async def trickle(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        while True:
            await answer.write(b" ")
            await asyncio.sleep(0.01)

    app = web.Application()
    app.router.add_get("/", trickle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    http = IssuerHttp(connect_timeout_s=0.05, read_timeout_s=0.05, asks_https=False)
    with pytest.raises(IssuerError, match="did not answer in time"):
        await http.get(f"http://127.0.0.1:{runner.addresses[0][1]}/")
    await runner.cleanup()


async def test_an_issuer_is_trusted_by_its_own_file_of_authorities(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    server = authority.issue("localhost")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(server.certificate, server.key)

    async def answer(request: web.Request) -> web.Response:
        return web.json_response({"issuer": "this"})

    app = web.Application()
    app.router.add_get("/", answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    url = f"https://localhost:{runner.addresses[0][1]}/"
    assert json.loads(await IssuerHttp(trust_file=str(authority.file)).get(url)) == {"issuer": "this"}
    with pytest.raises(IssuerError, match="cannot be reached"):
        await IssuerHttp().get(url)
    other = Authority(tmp_path, "other")
    with pytest.raises(IssuerError, match="cannot be reached"):
        await IssuerHttp(trust_file=str(other.file)).get(url)
    await runner.cleanup()
