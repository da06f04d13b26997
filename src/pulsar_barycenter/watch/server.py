"""Serves the dashboard and its answers on 127.0.0.1: GETs only, and no answer to the pages of others.

A request whose `Host` is not this machine, or that a page of another origin sends, is refused with 403, as brokers do
(`dashboard.own_page`). There is no authentication: every user of this machine may look, so data that not all of them
may see needs a machine of its own.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from email.utils import formatdate
from typing import Any, Final, TypeAlias

import msgspec
from aiohttp import web

from pulsar_barycenter.dashboard.files import HEADERS, START, dashboard_files
from pulsar_barycenter.dashboard.own_page import strange_host, strange_origin
from pulsar_barycenter.watch.answers import LONGEST_VALUE, AnswerError, Answers

LOOPBACK: Final = "127.0.0.1"
MAX_HEADERS: Final = 16_384
_NO_BROKER: Final = (
    "This server shows a cluster from outside, and changes nothing: use pulsar-admin, or barycenter move and drain"
)
_Ask: TypeAlias = Callable[[Mapping[str, str], int], Any]


class WatchServer:
    """The HTTP server of `barycenter watch`. It holds `lock` while it answers a request, because the data about the
    cluster must not change meanwhile.
    """

    def __init__(self, answers: Answers, lock: asyncio.Lock, now_ms: Callable[[], int]) -> None:
        self._answers = answers
        self._lock = lock
        self._now_ms = now_ms
        self._runner: web.AppRunner | None = None
        ask: dict[str, _Ask] = {
            "overview": lambda _query, now: answers.overview(now),
            "load-history": answers.load_history,
            "timeline": lambda query, _now: answers.timeline(query),
            "decision-log": lambda query, _now: answers.decision_log(query),
            "bundles": lambda query, _now: answers.bundles(query),
            "balance": lambda _query, _now: answers.balance(),
            "explanation": lambda query, _now: answers.explanation(query),
            "settings": lambda _query, _now: answers.settings(),
            "setting-changes": lambda _query, _now: {},
        }
        self._app = web.Application(middlewares=[_refusing])
        self._app.router.add_get("/", self._start)
        self._app.router.add_get("/dashboard/{file}", self._file)
        # pages ask for the topics of a bundle, which only brokers know: none are told
        self._app.router.add_get("/admin/v2/persistent/{tenant}/{namespace}", self._handler(lambda _query, _now: None))
        for name, answer in ask.items():
            self._app.router.add_get(f"/barycenter/v1/{name}", self._handler(answer))
        self._app.on_response_prepare.append(self._date)

    async def start(self, port: int) -> str:
        """Listen on a port of 127.0.0.1; 0: any free port. Return the address of the pages.

        Raises:
            OSError: the port cannot be used.
        """
        self._runner = web.AppRunner(self._app, max_field_size=MAX_HEADERS, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, LOOPBACK, port)
        await site.start()
        [(host, chosen)] = self._runner.addresses
        return f"http://{host}:{chosen}/"

    async def close(self) -> None:
        """Close the port and end the server. Idempotent."""
        if self._runner is not None:
            await self._runner.cleanup()

    def _handler(self, answer: _Ask) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def handle(request: web.Request) -> web.Response:
            query = _query(request)
            async with self._lock:
                found = await asyncio.to_thread(answer, query, self._now_ms())
            return web.Response(
                body=msgspec.json.encode(found),
                content_type="application/json",
                headers={"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"},
            )

        return handle

    async def _start(self, _request: web.Request) -> web.Response:
        return _file_named(START)

    async def _file(self, request: web.Request) -> web.Response:
        return _file_named(request.match_info["file"])

    async def _date(self, _request: web.Request, response: web.StreamResponse) -> None:
        """Set the header Date of a response to the time as of which the cluster is shown, because the pages use that
        header as the present time (see `Answers.shown_ms`).
        """
        response.headers["Date"] = formatdate(self._answers.shown_ms(self._now_ms()) / 1000, usegmt=True)


@web.middleware
async def _refusing(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """Call `handler` for a request and return its response. A request for another host or from a page of another origin
    gets a response that refuses it; an error of the handler is converted to a response. Both responses have the body
    `{"reason": …}`.
    """
    strange = strange_host(request.headers, (), "server", "Open the address that barycenter watch has printed")
    strange = strange or strange_origin(request.headers, request.method, request.path, "server")
    if strange is not None:
        return _refusal(strange.status, strange.reason)
    if request.method not in ("GET", "HEAD"):
        return _refusal(405, _NO_BROKER)
    try:
        return await handler(request)
    except AnswerError as error:
        return _refusal(error.status, str(error))
    except web.HTTPNotFound:
        return _refusal(404, f"{request.path[:200]} is not served here. {_NO_BROKER}")


def _refusal(status: int, reason: str) -> web.Response:
    return web.Response(
        status=status, body=msgspec.json.encode({"reason": reason}), content_type="application/json", headers={}
    )


def _query(request: web.Request) -> dict[str, str]:
    query = dict(request.rel_url.query)
    for name, value in query.items():
        if len(value) > LONGEST_VALUE or "\0" in value:
            raise AnswerError(400, f"The parameter {name[:100]} has a NUL, or more than {LONGEST_VALUE:,} characters")
    return query


def _file_named(name: str) -> web.Response:
    found = dashboard_files().get(name)
    if found is None:
        return _refusal(404, f"The dashboard has no file {name[:100]!r}: its start page is /")
    return web.Response(
        body=found.body, content_type=found.content_type, charset="utf-8", headers={**HEADERS, "ETag": found.tag}
    )
