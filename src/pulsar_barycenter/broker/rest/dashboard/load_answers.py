"""Answers about loads over time: from what the leader remembers, and of older times from tables, in a thread.

Tables are read for one answer at a time, and answers are kept for FRESH_S, as pages ask alike.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

import msgspec
import structlog
from aiohttp import web

from pulsar_barycenter.bounds.recent import Recent
from pulsar_barycenter.broker.rest.errors import RestError
from pulsar_barycenter.broker.rest.requests import whole_number
from pulsar_barycenter.broker.rest.services import BrokerServices
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.load.reports.load_over_time import (
    DEFAULT_SPAN_MS,
    LATEST_TIME_MS,
    LONGEST_STEP_MS,
    LoadOverTime,
    LoadQuestion,
    LoadQuestionError,
    Moment,
    RecordedLoad,
    load_question,
    over_time,
    untold,
)
from pulsar_barycenter.naming.bundle import Bundle

log = structlog.get_logger(__name__)

FRESH_S: Final = 20.0
_KEPT: Final = 8
MOST_WAITING: Final = 16
"""Requests under way, of which one reads."""
_REPORT_SLACK_MS: Final = 60_000
_NO_TABLES: Final = "This broker reads no tables: what is shown is what its leader remembers."


def report_holds_ms(config: BrokerConfig) -> int:
    """Return how long a report holds for a broker that goes on: until the next has to come, and a minute; at most an
    hour and a minute."""
    longest_ms = int(60_000 * config.load_balancer_report_update_max_interval_minutes)
    return min(longest_ms, 3_600_000) + _REPORT_SLACK_MS


class LoadAnswers:
    def __init__(self, services: BrokerServices) -> None:
        self._services = services
        self._reading = asyncio.Lock()
        self._waiting = 0
        self._kept: Recent[LoadQuestion, tuple[float, bytes]] = Recent(_KEPT)

    def remembered(self, moments: Sequence[Moment]) -> bytes:
        """Return the JSON of what is remembered, as it was taken."""
        now_ms = self._services.control.env.clock.now_ms()
        since_ms = moments[0].at if moments else now_ms
        told = LoadOverTime(since=since_ms, until=now_ms, step=0, whole_since=since_ms, note="", moments=list(moments))
        return msgspec.json.encode(told)

    def question(self, request: web.Request) -> LoadQuestion | None:
        """Return what a request asks, None if it names neither a time, a broker nor a bundle.

        Raises:
            RestError: 400, a parameter is not of its form, or out of its bounds.
            InvalidNameError: the bundle cannot be one.
        """
        query = request.rel_url.query
        broker, bundle = query.get("broker", ""), query.get("bundle", "")
        if broker and bundle:
            raise RestError(400, "Give one of the parameters broker and bundle")
        if not any(query.get(name) for name in ("since", "until", "step", "broker", "bundle")):
            return None
        now_ms = self._services.control.env.clock.now_ms()
        until_ms = whole_number(request, "until", now_ms, at_most=LATEST_TIME_MS)
        since_ms = whole_number(request, "since", max(0, until_ms - DEFAULT_SPAN_MS), at_most=LATEST_TIME_MS)
        try:
            return load_question(
                since_ms,
                until_ms,
                whole_number(request, "step", 0, at_most=LONGEST_STEP_MS),
                brokers=len(self._services.control.registration.brokers),
                broker=broker,
                bundle=str(Bundle.parse(bundle)) if bundle else "",
            )
        except LoadQuestionError as error:
            raise RestError(400, str(error)) from error

    async def answer(self, question: LoadQuestion, moments: Sequence[Moment]) -> bytes:
        """Return the JSON of an answer, of what is remembered and of tables.

        Raises:
            RestError: 503, too many ask.
        """
        if self._waiting >= MOST_WAITING:
            raise RestError(503, "Too many ask for loads over time. Try again.")
        self._waiting += 1
        try:
            async with self._reading:
                now = asyncio.get_running_loop().time()
                made_at, body = self._kept.get(question) or (now - FRESH_S, b"")
                if now - made_at < FRESH_S:
                    return body
                body = await asyncio.to_thread(
                    self._made, question, tuple(moments), report_holds_ms(self._services.config)
                )
                self._kept.put(question, (asyncio.get_running_loop().time(), body))
                return body
        finally:
            self._waiting -= 1

    def _made(self, question: LoadQuestion, moments: Sequence[Moment], holds_ms: int) -> bytes:
        told = () if question.bundle else moments
        left = untold(question.from_earlier(holds_ms), [moment.at for moment in told])
        recorded = None if left is None else self._recorded(left)
        return msgspec.json.encode(over_time(question, told, recorded, holds_ms=holds_ms))

    def _recorded(self, question: LoadQuestion) -> RecordedLoad:
        read = self._services.load_tables
        if read is None:
            return RecordedLoad({}, question.until_ms, _NO_TABLES)
        try:
            return read(question)
        except OSError as error:
            log.warning("load_tables_unreadable", reason=str(error))
            return RecordedLoad(
                {}, question.until_ms, "The pipeline's tables cannot be read: this broker's log says why."
            )
