"""The decisions of this broker with their reasons, and the leader's snapshot: Barycenter's own resources.

    GET /barycenter/v1/decisions?limit=100&bundle=<tenant/namespace/range>&namespace=<tenant/namespace>
        &broker=<broker id>&since=<epoch ms>

returns the last decisions in this broker's memory, oldest first, in the form of the decision log. Only the leader takes
decisions; another broker returns those from when it was leader.

    GET /barycenter/v1/decision-log?of=cluster&limit=100&since=<epoch ms>&until=<epoch ms>&before=<cursor>
        &bundle=&namespace=&broker=&topic=persistent://tenant/namespace/topic&covering=<tenant/namespace/range>

returns a page that includes the log files, also those of brokers and leaders that no longer run
(`cluster_logs.decision_pages`). A broker reads the logs in its own data folder; with `of=cluster` it requests a page
from every broker and merges the pages.

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
from pulsar_barycenter.broker.rest.relay import answers_of_brokers, decoded_answers
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
_CONCURRENT_READS: Final = 2
_CLUSTER_REQUESTS: Final = 2
"""The maximum number of client requests with `of=cluster` that are answered at the same time; further ones wait."""


class Decisions:
    def __init__(self, services: BrokerServices) -> None:
        self._services = services
        self._reading = asyncio.Semaphore(_CONCURRENT_READS)
        self._asking_brokers = asyncio.Semaphore(_CLUSTER_REQUESTS)

    async def recent(self, request: web.Request) -> web.Response:
        limit = whole_number(request, "limit", _DEFAULT_LIMIT, at_most=KEPT)
        decisions = self._services.decisions()
        wanted = decision_filter(request)
        records = [] if decisions is None else [record for record in decisions.recent() if wanted(record)]
        return json_response(records[-limit:] if limit else [])

    async def logged(self, request: web.Request) -> web.Response:
        """Answer with a page of logged decisions. With the parameter `topic`, it has the decisions about every bundle
        that contains or contained the topic. With `covering`, which is a bundle, it has the decisions about that bundle
        and about the larger bundles from which it was split.
        """
        of = choice(request, "of", LOG_OF)
        question = decision_question(request)
        page = await self._page(question)
        if of == "cluster":
            async with self._asking_brokers:
                answers = await answers_of_brokers(self._services, request)
            pages = decoded_answers(answers, DecisionPage)
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
    """Return the snapshot from which the leader would make its decisions now. Call it on the leader only.

    Raises:
        RestError: 412, the load manager of this broker has no snapshot.
    """
    manager = services.control.load_manager
    if not isinstance(manager, KeepsSnapshot):
        raise RestError(412, f"{type(manager).__name__} has no snapshot: use the modular or the simple load manager")
    return await manager.snapshot_document()


async def require_leader(request: web.Request, services: BrokerServices) -> None:
    """Check that this broker is the leader.

    Raises:
        RedirectError: another broker is the leader.
        RestError: 503, there is no leader, or the leader has no port for this scheme.
    """
    leadership = services.control.leadership
    if leadership.is_leader():
        return
    leader = await leadership.current_leader()
    if leader is None or leader.broker_id == services.urls.broker_id:
        raise RestError(503, "There is no leader at the moment. Try again.")
    url = await leader_url_for(request, services, leader)
    if url is None:
        raise RestError(
            503,
            f"The leader, {leader.broker_id}, has no {request.scheme.upper()} port: send the "
            "request with the other scheme, http or https",
        )
    raise RedirectError(location(request, url, authoritative=False))


def decision_filter(request: web.Request) -> Callable[[DecisionRecord], bool]:
    """Return a function that returns whether a decision matches the query parameters of the request.

    Raises:
        InvalidNameError, RestError: a parameter is not valid.
    """
    query = request.rel_url.query
    bundle = str(Bundle.parse(query["bundle"])) if query.get("bundle") else ""
    namespace = str(NamespaceName.parse(query["namespace"])) if query.get("namespace") else ""
    broker = query.get("broker", "")
    since_ms = whole_number(request, "since", 0, at_most=LATEST_MS)
    return lambda record: record.at >= since_ms and record.concerns(bundle=bundle, namespace=namespace, broker=broker)


def decision_question(request: web.Request) -> DecisionQuestion:
    """Build the query to the decision logs from the parameters of a request.

    Raises:
        InvalidNameError, RestError: a parameter is not valid, or both `topic` and `covering` are given.
    """
    query = request.rel_url.query
    topic, covering, before = query.get("topic"), query.get("covering"), query.get("before")
    if topic and covering:
        raise RestError(400, "Both parameters topic and covering are given: send only one of them")
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
