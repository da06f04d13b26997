"""The audit log: which changes administrators made, with caller, address, request, reason and answer.

    GET /barycenter/v1/audit?of=cluster&limit=100&since=<epoch ms>&until=<epoch ms>&before=<cursor>&request_id=

returns a page of the changes in `cluster_logs.audit_log`, oldest first, that ends before the cursor `before`.
`of=cluster` also requests the logs of the other brokers. A change is in the log of the broker that made it. A broker
that passes a request on writes the destination to its process log, under the same request id. The log has only requests
that were answered with 2xx or 500, of routes that are `is_audited`; it has no refused requests.

A caller may give a reason in the header WHY.
"""

import asyncio
from typing import Final
from urllib.parse import unquote, urlsplit

import structlog
from aiohttp import web
from aiohttp.typedefs import Middleware

from pulsar_barycenter.admin.routes.barycenter import LOG_OF
from pulsar_barycenter.broker.access.principal import NOBODY
from pulsar_barycenter.broker.rest.errors import Handler, RestError
from pulsar_barycenter.broker.rest.principals import PRINCIPAL
from pulsar_barycenter.broker.rest.relay import RELAYED, answers_of_brokers, decoded_answers
from pulsar_barycenter.broker.rest.request_ids import REQUEST_ID
from pulsar_barycenter.broker.rest.requests import choice, json_response, route_of, whole_number
from pulsar_barycenter.broker.rest.services import BrokerServices
from pulsar_barycenter.cluster_logs.audit_log import (
    MAX_WHY_CHARACTERS,
    AuditPage,
    AuditQuestion,
    merged_changes,
    read_changes,
)
from pulsar_barycenter.cluster_logs.record_pages import LATEST_MS, MAX_RECORDS_ON_PAGE, parse_cursor
from pulsar_barycenter.cluster_logs.request_ids import is_request_id

log = structlog.get_logger(__name__)

WHY: Final = "X-Barycenter-Why"
_READS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_VALUES: Final = frozenset({"value"})
"""The path parameters that contain the new value of a key, which may be secret."""
_LONGEST_PART: Final = 300
_DEFAULT_LIMIT: Final = 100
_CONCURRENT_READS: Final = 2
_CLUSTER_REQUESTS: Final = 2


def why_of(request: web.Request) -> str:
    """Return the reason that the caller gave for a change, "" if the request has none. The text is cut after
    MAX_WHY_CHARACTERS characters, and each character that is not printable becomes a space.

    Clients send characters outside Latin-1 percent-encoded, because headers cannot contain them.
    """
    text = unquote(request.headers.get(WHY, "")[: 3 * MAX_WHY_CHARACTERS])
    return "".join(character if character.isprintable() else " " for character in text[:MAX_WHY_CHARACTERS]).strip()


def audited(services: BrokerServices) -> Middleware:
    """Return the middleware that records each successful or failed change of an audited route in the audit log (failed:
    status 500). In the application it must precede the middleware that turns errors into answers, so that it sees the
    status of every answer.
    """

    @web.middleware
    async def record_change(request: web.Request, handler: Handler) -> web.StreamResponse:
        response = await handler(request)
        if request.method in _READS:
            return response
        row = route_of(request)
        if row is None or not row.is_audited:
            return response
        if response.status in (307, 308) or RELAYED in request:
            passed_to = request.get(RELAYED) or response.headers.get("Location", "")
            broker = services.control.urls.broker_id if services.control.urls else ""
            log.info(
                "request_passed_on", broker=broker, method=request.method, route=row.path, to=urlsplit(passed_to).netloc
            )
        elif response.status < 300 or response.status == 500:
            _record(services, request, row.path, response.status)
        return response

    return record_change


def _record(services: BrokerServices, request: web.Request, route: str, status: int) -> None:
    if services.control.audit is None:
        return
    parts = {name: text[:_LONGEST_PART] for name, text in request.match_info.items() if name not in _VALUES}
    record = services.control.audit.record(
        services.control.env.clock.now_ms(),
        principal=str(request.get(PRINCIPAL, NOBODY)),
        address=request.remote or "",
        method=request.method,
        route=route,
        about=parts,
        status=status,
        request_id=request[REQUEST_ID],
        why=why_of(request),
    )
    log.info(
        "administered",
        broker=record.by,
        principal=record.principal,
        address=record.address,
        method=record.method,
        route=record.route,
        about=dict(record.about),
        status=record.status,
        why=record.why,
    )


class Audit:
    def __init__(self, services: BrokerServices) -> None:
        self._services = services
        self._reading = asyncio.Semaphore(_CONCURRENT_READS)
        self._asking_brokers = asyncio.Semaphore(_CLUSTER_REQUESTS)

    async def changes(self, request: web.Request) -> web.Response:
        of = choice(request, "of", LOG_OF)
        question = audit_question(request)
        page = await self._page(question)
        if of == "cluster":
            async with self._asking_brokers:
                answers = await answers_of_brokers(self._services, request)
            pages = decoded_answers(answers, AuditPage)
            others = self._services.control.registration.brokers - {self._services.urls.broker_id}
            page = merged_changes([page, *pages.values()], question.limit, others - pages.keys())
        return json_response(page)

    async def _page(self, question: AuditQuestion) -> AuditPage:
        audit = self._services.control.audit
        if audit is None:
            return AuditPage(changes=[])
        async with self._reading:
            return await asyncio.to_thread(read_changes, audit.folder, question, audit.recent())


def audit_question(request: web.Request) -> AuditQuestion:
    """Build the query to the audit logs from the parameters of a request.

    Raises:
        RestError: 400, a parameter is not valid.
    """
    query = request.rel_url.query
    request_id, before = query.get("request_id", ""), query.get("before")
    if request_id and not is_request_id(request_id):
        raise RestError(400, f"The parameter request_id is not a request id: {request_id[:100]!r}")
    try:
        return AuditQuestion(
            since_ms=whole_number(request, "since", 0, at_most=LATEST_MS),
            until_ms=whole_number(request, "until", LATEST_MS, at_most=LATEST_MS),
            request_id=request_id,
            before=parse_cursor(before) if before else None,
            limit=max(1, whole_number(request, "limit", _DEFAULT_LIMIT, at_most=MAX_RECORDS_ON_PAGE)),
        )
    except ValueError as error:
        raise RestError(400, str(error)) from error
