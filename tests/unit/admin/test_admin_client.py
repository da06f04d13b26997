"""The client of the admin REST, with a server that answers correctly and incorrectly."""

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from pulsar_barycenter.admin.client import MAX_REDIRECTS, AdminClient, reason_of
from pulsar_barycenter.admin.errors import AdminRequestError
from pulsar_barycenter.credentials.client_authentication import parse_authentication
from pulsar_barycenter.credentials.tls import ClientTls, ServerTls
from support.authorities import Authority

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def served(authority: Authority | None = None, **handlers: Handler) -> AsyncIterator[tuple[AdminClient, str]]:
    """Serve each handler at the path of its name, to any verb; give a client and the address. By TLS if there is an
    authority, which the client trusts."""
    server_side: ssl.SSLContext | None = None
    if authority is not None:
        issued = authority.issue("server")
        server_side = ServerTls(str(issued.certificate), str(issued.key)).context()
    app = web.Application()
    app.router.add_routes([web.route("*", f"/{name}", handler) for name, handler in handlers.items()])
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=server_side).start()
    tls = None if authority is None else ClientTls(str(authority.file))
    client = AdminClient(timeout_s=20, shows=parse_authentication("token", "token:a.b.c"), tls=tls)
    try:
        yield client, f"{'http' if authority is None else 'https'}://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await client.close()
        await runner.cleanup()


def to(location: str) -> Handler:
    async def move(request: web.Request) -> web.Response:
        return web.Response(status=307, headers={"Location": location})

    return move


async def told(request: web.Request) -> web.Response:
    body = await request.json() if request.can_read_body else None
    return web.json_response({"method": request.method, "body": body, "query": dict(request.query)})


async def test_verb_and_body_go_along_a_redirect_but_not_without_end() -> None:
    async with served(here=told, there=to("/here"), round=to("/round")) as (client, url):
        assert await client.call("PUT", url, "/there", body=[1]) == {"method": "PUT", "body": [1], "query": {}}
        with pytest.raises(AdminRequestError, match=f"more than {MAX_REDIRECTS} redirects"):
            await client.call("PUT", url, "/round")


async def test_no_redirect_leads_out_of_tls(tmp_path: Path) -> None:
    """What was shown by TLS, and what was sent, would go on where everybody on the way reads it."""
    heard = []

    async def listen(request: web.Request) -> web.Response:
        heard.append(request.headers.get("Authorization"))
        return web.json_response({})

    authority = Authority(tmp_path)
    async with (
        served(here=listen) as (_, plain),
        served(authority, there=to(f"{plain}/here"), near=to("/here"), here=told) as (client, url),
    ):
        with pytest.raises(
            AdminRequestError, match=r"307: its redirect leads from TLS to http://[^ ]+/here, without TLS"
        ) as no:
            await client.call("GET", url, "/there")
        assert (no.value.status, heard) == (307, [])
        assert (await client.call("GET", url, "/near"))["method"] == "GET"
        async with served(there=to(f"{plain}/here"), secret=to(f"{url}/here")) as (_, start):
            await client.call("GET", start, "/there")
            assert heard == ["Bearer a.b.c"], "as Pulsar's clients do, to whatever broker it leads"
            assert (await client.call("PUT", start, "/secret"))["method"] == "PUT"


@pytest.mark.parametrize("location", ["http://[::1", "http://a:b/", "ftp://127.0.0.1/", "http://u:p@127.0.0.1:1/"])
async def test_a_redirect_that_leads_nowhere_is_an_error_of_the_broker(location: str) -> None:
    async with served(there=to(location)) as (client, url):
        with pytest.raises(AdminRequestError):
            await client.call("GET", url, "/there")


async def test_an_address_where_nobody_listens_is_told_as_such(tmp_path: Path) -> None:
    async with served() as (client, url):
        pass
    for address in (url, url.replace("http:", "https:"), url.replace("127.0.0.1", "localhost")):
        client = AdminClient(timeout_s=20)
        try:
            with pytest.raises(AdminRequestError) as caught:
                await client.call("GET", address, "/here", params={"a": "b"})
        finally:
            await client.close()
        told = f"no server listens at {address} (connection refused)"
        assert (caught.value.status, caught.value.reason) == (0, told)


async def test_a_host_that_has_no_address_is_told_as_such() -> None:
    async with served() as (client, _):
        with pytest.raises(
            AdminRequestError, match=r"no answer: cannot connect to http://none\.invalid:8080: \S"
        ) as no:
            await client.call("GET", "http://none.invalid:8080", "/here")
    assert "ssl:" not in str(no.value)


async def test_parameters_are_sent_and_a_location_has_its_own() -> None:
    async with served(here=told, there=to("/here?destination=b%2F1")) as (client, url):
        answer = await client.call("GET", url, "/here", params={"since": "1 2"})
        assert answer["query"] == {"since": "1 2"}
        assert (await client.call("GET", url, "/there", params={"lost": "x"}))["query"] == {"destination": "b/1"}


async def test_a_success_without_a_body_is_nothing_and_one_that_is_not_json_an_error() -> None:
    async def empty(request: web.Request) -> web.Response:
        return web.Response(status=204)

    async def page(request: web.Request) -> web.Response:
        return web.Response(text="<html>a portal</html>")

    async with served(empty=empty, page=page) as (client, url):
        assert await client.call("DELETE", url, "/empty") is None
        with pytest.raises(AdminRequestError, match="the answer is not JSON") as caught:
            await client.call("GET", url, "/page")
        assert caught.value.status == 200


async def test_an_error_is_told_with_its_status_and_in_its_own_words() -> None:
    async def refused(request: web.Request) -> web.Response:
        return web.json_response({"reason": "Namespace does not exist"}, status=404)

    async with served(refused=refused) as (client, url):
        with pytest.raises(AdminRequestError) as caught:
            await client.call("GET", url, "/refused")
        assert (caught.value.status, caught.value.reason) == (404, "Namespace does not exist")
        assert str(caught.value) == f"GET {url}/refused: 404: Namespace does not exist"


async def test_a_broker_that_is_not_there_is_no_answer() -> None:
    async with served() as (_, url):
        pass
    client = AdminClient()
    with pytest.raises(AdminRequestError, match="no answer") as caught:
        await client.call("GET", url, "/")
    assert caught.value.status == 0
    await client.close()


async def test_a_closed_client_sends_nothing_and_may_be_closed_again() -> None:
    async with served(here=told) as (client, url):
        await client.close()
        await client.close()
        with pytest.raises(AdminRequestError) as caught:
            await client.call("GET", url, "/here")
        assert caught.value.status == 0


@pytest.mark.parametrize(
    ("body", "reason"), [(b'{"reason":"so"}', "so"), (b"plain", "plain"), (b"[1]", "[1]"), (b"\xff", "�")]
)
def test_the_reason_is_found_in_any_body(body: bytes, reason: str) -> None:
    assert reason_of(body) == reason


def test_of_a_page_of_html_the_title_is_told() -> None:
    page = b"<html><head><TITLE>Error 404\n Not Found</TITLE></head><body><h2>HTTP ERROR</h2></body></html>"
    assert reason_of(page) == "Error 404 Not Found"
