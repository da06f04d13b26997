"""The client of the admin REST, against a server that answers as brokers do, and as they should not."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from barycenter.admin.client import MAX_REDIRECTS, AdminClient, reason_of
from barycenter.admin.errors import AdminRequestError

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def served(**handlers: Handler) -> AsyncIterator[tuple[AdminClient, str]]:
    """Serve each handler at the path of its name, to any verb; give a client and the address."""
    app = web.Application()
    app.router.add_routes([web.route("*", f"/{name}", handler) for name, handler in handlers.items()])
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    client = AdminClient(timeout_s=20)
    try:
        yield client, f"http://127.0.0.1:{runner.addresses[0][1]}"
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
