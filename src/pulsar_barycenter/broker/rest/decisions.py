"""What this broker decided, and why, and what the leader decides upon: Barycenter's own resources.

    GET /barycenter/v1/decisions?limit=100&bundle=<tenant/namespace/range>&namespace=<tenant/namespace>
        &broker=<broker id>&since=<epoch ms>

returns the last decisions that this broker remembers, oldest first, as in the decision log. Decisions are made by the
leader; another broker shows those of its own time as leader.

    GET /barycenter/v1/decision-log?of=cluster&limit=100&since=<epoch ms>&until=<epoch ms>&before=<cursor>
        &bundle=&namespace=&broker=&topic=persistent://tenant/namespace/topic&covering=<tenant/namespace/range>

returns a page of those in the logs' files, too, also of brokers and leaders that are gone:
`cluster_logs.decision_pages`. Each broker reads the logs of its own data folder, and `of=cluster` asks all brokers for
a page and makes one of them.

    GET /barycenter/v1/snapshot

returns the document of `load.snapshot.document`, from the leader.
"""

import asyncio
from collections.abc import Callable
from typing import Final, get_args

from aiohttp import web

from pulsar_barycenter.admin.routes.barycenter import LOG_OF
from pulsar_barycenter.broker.load_manager.contract import KeepsSnapshot
from pulsar_barycenter.broker.rest.errors import RedirectError, RestError
from pulsar_barycenter.broker.rest.ownership import leader_url_for, location
from pulsar_barycenter.broker.rest.relay import asked_everywhere, decoded_each
from pulsar_barycenter.broker.rest.requests import choice, json_response, whole_number
from pulsar_barycenter.broker.rest.services import BrokerServices
from pulsar_barycenter.cluster_logs.decision_log import KEPT, DecisionRecord, Kind
from pulsar_barycenter.cluster_logs.decision_pages import DecisionPage, DecisionQuestion, Span, merged_pages, read_page
from pulsar_barycenter.cluster_logs.record_pages import LATEST_MS, MAX_RECORDS_ON_PAGE, parse_cursor
from pulsar_barycenter.load.snapshot.document import SnapshotDocument, encode_snapshot
from pulsar_barycenter.naming.bundle import Bundle
from pulsar_barycenter.naming.errors import InvalidNameError
from pulsar_barycenter.naming.namespace import NamespaceName
from pulsar_barycenter.naming.topic import TopicName

_DEFAULT_LIMIT: Final = 100
_READ_AT_ONCE: Final = 2
_EVERYWHERE_AT_ONCE: Final = 2
"""Requests that ask all brokers and are under way: one of somebody's becomes as many as there are brokers."""


class Decisions:
    def __init__(self, services: BrokerServices) -> None:
        self._services = services
        self._reading = asyncio.Semaphore(_READ_AT_ONCE)
        self._asking_everywhere = asyncio.Semaphore(_EVERYWHERE_AT_ONCE)

    async def recent(self, request: web.Request) -> web.Response:
        limit = whole_number(request, "limit", _DEFAULT_LIMIT, at_most=KEPT)
        decisions = self._services.decisions()
        wanted = decision_filter(request)
        records = [] if decisions is None else [record for record in decisions.recent() if wanted(record)]
        return json_response(records[-limit:] if limit else [])

    async def logged(self, request: web.Request) -> web.Response:
        """`topic` selects decisions on its bundles, `covering` those on a bundle and the bundles it was split from."""
        of = choice(request, "of", LOG_OF)
        question = decision_question(request)
        page = await self._page(question)
        if of == "cluster":
            async with self._asking_everywhere:
                answers = await asked_everywhere(self._services, request)
            pages = decoded_each(answers, DecisionPage)
            others = self._services.control.registration.brokers - {self._services.urls.broker_id}
            page = merged_pages([page, *pages.values()], question.limit, others - pages.keys())
        return json_response(page)

    async def _page(self, question: DecisionQuestion) -> DecisionPage:
        decisions = self._services.decisions()
        if decisions is None:
            return DecisionPage(decisions=[])
        async with self._reading:
            return await asyncio.to_thread(read_page, decisions.folder, question, decisions.recent())

    async def snapshot(self, request: web.Request) -> web.Response:
        await require_leader(request, self._services)
        document = await snapshot_document(self._services)
        body = await asyncio.to_thread(encode_snapshot, document)
        return web.Response(body=body, content_type="application/json")


async def snapshot_document(services: BrokerServices) -> SnapshotDocument:
    """Return what this broker, which leads, would decide upon now.

    Raises:
        RestError: 412, its load manager keeps none.
    """
    manager = services.control.load_manager
    if not isinstance(manager, KeepsSnapshot):
        raise RestError(412, f"{type(manager).__name__} keeps no snapshot; the modular and the simple one do")
    return await manager.snapshot_document()


async def require_leader(request: web.Request, services: BrokerServices) -> None:
    """Go on only on the leader.

    Raises:
        RedirectError: another broker leads.
        RestError: 503, nobody does, or not at a port of this kind.
    """
    leadership = services.control.leadership
    if leadership.is_leader():
        return
    leader = await leadership.current_leader()
    if leader is None or leader.broker_id == services.urls.broker_id:
        raise RestError(503, "There is no leader at the moment. Try again.")
    url = await leader_url_for(request, services, leader)
    if url is None:
        raise RestError(503, f"{leader.broker_id}, which leads, has no {request.scheme.upper()} port")
    raise RedirectError(location(request, url, authoritative=False))


def decision_filter(request: web.Request) -> Callable[[DecisionRecord], bool]:
    """Return whether a decision is one of those asked for.

    Raises:
        InvalidNameError, RestError: a parameter is not of its form.
    """
    query = request.rel_url.query
    bundle = str(Bundle.parse(query["bundle"])) if query.get("bundle") else ""
    namespace = str(NamespaceName.parse(query["namespace"])) if query.get("namespace") else ""
    broker = query.get("broker", "")
    since_ms = whole_number(request, "since", 0, at_most=LATEST_MS)
    return lambda record: record.at >= since_ms and record.concerns(bundle=bundle, namespace=namespace, broker=broker)


def decision_question(request: web.Request) -> DecisionQuestion:
    """Return what a request asks of the decision logs.

    Raises:
        InvalidNameError, RestError: a parameter is not of its form, or `topic` and `covering` are both given.
    """
    query = request.rel_url.query
    topic, covering, before = query.get("topic"), query.get("covering"), query.get("before")
    if topic and covering:
        raise RestError(400, "Give one of the parameters topic and covering")
    kind = choice(request, "kind", ("", *get_args(Kind)))
    span = Span.of_topic(TopicName.parse(topic)) if topic else None
    try:
        return DecisionQuestion(
            bundle=str(Bundle.parse(query["bundle"])) if query.get("bundle") else "",
            namespace=str(NamespaceName.parse(query["namespace"])) if query.get("namespace") else "",
            broker=query.get("broker", ""),
            kind=kind,
            covering=Span.of_bundle(Bundle.parse(covering)) if covering else span,
            since_ms=whole_number(request, "since", 0, at_most=LATEST_MS),
            until_ms=whole_number(request, "until", LATEST_MS, at_most=LATEST_MS),
            before=parse_cursor(before) if before else None,
            limit=max(1, whole_number(request, "limit", _DEFAULT_LIMIT, at_most=MAX_RECORDS_ON_PAGE)),
        )
    except InvalidNameError:
        raise
    except ValueError as error:
        raise RestError(400, str(error)) from error
