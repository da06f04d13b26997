"""Answers requests of pages with data that the leader has: the state of the cluster, the loads over time, and the
decisions.

    GET /barycenter/v1/overview
    GET /barycenter/v1/load-history?since=<epoch ms>&until=<epoch ms>&step=<ms>&broker=<broker id>&bundle=<name>
    GET /barycenter/v1/timeline?of=cluster&limit=500&bundle=&namespace=&broker=&since=<epoch ms>

Many pages may poll one leader. So the overview is computed at most every FRESH_S seconds, and a request with the `ETag`
of the current one gets 304 without a body.
"""

import asyncio
import hashlib
from dataclasses import replace
from typing import Final

import msgspec
from aiohttp import web

from pulsar_barycenter.admin.routes.barycenter import MOST_TIMELINE, TIMELINE_OF
from pulsar_barycenter.broker.load_manager.pipeline_feed import HasPipelineState
from pulsar_barycenter.broker.rest.dashboard.load_answers import LoadAnswers, report_holds_ms
from pulsar_barycenter.broker.rest.decisions import decision_question, require_leader, snapshot_document
from pulsar_barycenter.broker.rest.relay import answers_of_brokers, decoded_lists
from pulsar_barycenter.broker.rest.requests import choice, json_response, whole_number
from pulsar_barycenter.broker.rest.services import BrokerServices
from pulsar_barycenter.cluster_logs.decision_pages import read_page
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.config.sources import NotedChange
from pulsar_barycenter.dashboard.load_history import LoadHistory
from pulsar_barycenter.dashboard.overview import (
    BrokerShare,
    Overview,
    PipelineHealth,
    Shares,
    complaints_of,
)
from pulsar_barycenter.dashboard.timeline import BriefDecision, brief, merged
from pulsar_barycenter.load.managers import StrategyError, manager_in_force, short_name
from pulsar_barycenter.load.policies import DRAINED_KEY
from pulsar_barycenter.load.snapshot.document import SnapshotDocument
from pulsar_barycenter.load.strategies import shedder_name
from pulsar_barycenter.metadata.errors import MetadataError

FRESH_S: Final = 2.0
_DEFAULT_LIMIT: Final = 500
_CLUSTER_REQUESTS: Final = 2
"""The maximum number of client requests with `of=cluster` that are answered at the same time; further ones wait."""
_CONCURRENT_READS: Final = 2


class LeadersView:
    def __init__(self, services: BrokerServices) -> None:
        self._services = services
        self._shares = Shares()
        self._making = asyncio.Lock()
        self._made_at: float | None = None
        self._body, self._tag = b"", ""
        self._asking_brokers = asyncio.Semaphore(_CLUSTER_REQUESTS)
        self._reading = asyncio.Semaphore(_CONCURRENT_READS)
        self._history, self._term = LoadHistory(), 0
        self._load_answers = LoadAnswers(services)

    async def overview(self, request: web.Request) -> web.Response:
        await require_leader(request, self._services)
        async with self._making:
            now = asyncio.get_running_loop().time()
            if self._made_at is None or now - self._made_at >= FRESH_S:
                await self._make()
                self._made_at = now
        headers = {"ETag": self._tag, "Cache-Control": "no-cache"}
        if request.headers.get("If-None-Match") == self._tag:
            return web.Response(status=304, headers=headers)
        return web.Response(body=self._body, content_type="application/json", headers=headers)

    async def _make(self) -> None:
        services = self._services
        document, config = await snapshot_document(services), services.config
        decisions = services.decisions()
        head = Overview(
            cluster=config.cluster_name,
            leader=services.urls.broker_id,
            epoch=services.control.leadership.epoch().number,
            manager=manager_in_force(config),
            strategy=_strategy(config),
            decisions=0 if decisions is None else decisions.made,
            drained=config.barycenter_drained_brokers,
            drain_change=await _drain_change(services) if config.barycenter_drained_brokers else None,
            pipeline=_pipeline(services),
            brokers=(),
        )
        # in a thread, because the event loop serves clients: the document is never changed
        shown, self._body, self._tag = await asyncio.to_thread(
            self._encoded, head, document, services.control.registration.brokers
        )
        if self._term != head.epoch:
            self._term, self._history = head.epoch, LoadHistory()
        self._history.add(document.taken_at, shown)

    def _encoded(
        self, head: Overview, document: SnapshotDocument, registered: frozenset[str]
    ) -> tuple[tuple[BrokerShare, ...], bytes, str]:
        shares = self._shares.of(document, registered)
        complaints = complaints_of(shares, head.pipeline, document.taken_at, report_holds_ms(self._services.config))
        body = msgspec.json.encode(msgspec.structs.replace(head, brokers=shares, complaints=complaints))
        return shares, body, f'"{hashlib.sha256(body).hexdigest()[:32]}"'

    async def load_history(self, request: web.Request) -> web.Response:
        await require_leader(request, self._services)
        question = self._load_answers.question(request)
        is_of_now = self._term == self._services.control.leadership.epoch().number
        moments = self._history.moments if is_of_now else []
        if question is None:
            body = self._load_answers.remembered(moments)
        else:
            body = await self._load_answers.answer(question, moments)
        return web.Response(body=body, content_type="application/json")

    async def timeline(self, request: web.Request) -> web.Response:
        of = choice(request, "of", TIMELINE_OF)
        limit = whole_number(request, "limit", _DEFAULT_LIMIT, at_most=MOST_TIMELINE)
        question = replace(decision_question(request), limit=max(1, limit))
        if of == "leader":
            await require_leader(request, self._services)
        decisions = self._services.decisions()
        found: list[BriefDecision] = []
        if decisions is not None and limit:
            async with self._reading:  # the log files reach further back than this process's memory
                page = await asyncio.to_thread(read_page, decisions.folder, question, decisions.recent())
            found = [brief(record) for record in page.decisions]
        if of == "cluster":
            async with self._asking_brokers:
                answers = await answers_of_brokers(self._services, request)
            found += decoded_lists(answers, BriefDecision)
        return json_response(merged(found, limit))


async def _drain_change(services: BrokerServices) -> NotedChange | None:
    """Return the last change of the configuration key that lists drained brokers, with its author. Return None if the
    store does not answer, or nothing is recorded about the change that set the present value.
    """
    dynamic = services.control.dynamic_configuration
    try:
        change = (await dynamic.changes.all()).get(DRAINED_KEY)
    except MetadataError:
        return None
    return change if change is not None and change.is_of(DRAINED_KEY, dynamic.overrides.get(DRAINED_KEY)) else None


def _strategy(config: BrokerConfig) -> str:
    """Return the name of the configured shedder: its full name if the class of the shedder can be loaded, else the last
    part of the configured class name.
    """
    try:
        return shedder_name(config)
    except StrategyError:
        return short_name(config.load_balancer_load_shedding_strategy)


def _pipeline(services: BrokerServices) -> PipelineHealth | None:
    manager = services.control.load_manager
    state = manager.pipeline_state() if isinstance(manager, HasPipelineState) else None
    if state is None or not (state.in_use or state.is_late):
        return None
    silent_s = (state.silent_ms or 0) // 1000 if state.is_silent else 0
    return PipelineHealth(in_use=state.in_use, lag_s=state.lag_ms // 1000, silent_s=silent_s)
