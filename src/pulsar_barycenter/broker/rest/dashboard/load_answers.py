"""Answers requests for loads over time: recent loads from the leader's memory, older ones from tables, which are read
in a thread.

Only one request reads tables at a time. Answers are cached for FRESH_S seconds, because pages send the same requests.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

import msgspec
import structlog
from aiohttp import web

from pulsar_barycenter import DISTRIBUTION
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
_MAX_CACHED: Final = 8
MOST_WAITING: Final = 16
"""The maximum number of requests at the same time, including the one that reads the tables. Further ones get 503."""
_REPORT_SLACK_MS: Final = 60_000
_NO_TABLES: Final = "This broker reads no tables, so only the loads in its leader's memory are shown."


def report_holds_ms(config: BrokerConfig) -> int:
    """Return for how many milliseconds a load report is regarded as current: until the next one is due, plus a minute;
    at most 61 minutes.
    """
    longest_ms = int(60_000 * config.load_balancer_report_update_max_interval_minutes)
    return min(longest_ms, 3_600_000) + _REPORT_SLACK_MS


class LoadAnswers:
    def __init__(self, services: BrokerServices) -> None:
        self._services = services
        self._reading = asyncio.Lock()
        self._waiting = 0
        self._cached: Recent[LoadQuestion, tuple[float, bytes]] = Recent(_MAX_CACHED)

    def remembered(self, moments: Sequence[Moment]) -> bytes:
        """Return the loads in memory as JSON. `moments` are these loads, each with the time at which it was measured,
        oldest first.
        """
        now_ms = self._services.control.env.clock.now_ms()
        since_ms = moments[0].at if moments else now_ms
        recent = LoadOverTime(since=since_ms, until=now_ms, step=0, whole_since=since_ms, note="", moments=[*moments])
        return msgspec.json.encode(recent)

    def question(self, request: web.Request) -> LoadQuestion | None:
        """Build the query from the parameters of a request. Return None if the request has none of the parameters
        `since`, `until`, `step`, `broker` and `bundle`, or all are blank.

        Raises:
            RestError: 400, a parameter is not valid, or the query asks for a larger time span or more values than
                allowed.
            InvalidNameError: the bundle's name is not valid.
        """
        query = request.rel_url.query
        broker, bundle = query.get("broker", ""), query.get("bundle", "")
        if broker and bundle:
            raise RestError(400, "Both parameters broker and bundle are given: send only one of them")
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
        """Return the answer to a query as JSON. The loads come from `moments`, which are in memory, and from the tables
        on disk for the times before. An answer younger than FRESH_S seconds is used again.

        Raises:
            RestError: 503, MOST_WAITING requests are waiting already.
        """
        if self._waiting >= MOST_WAITING:
            raise RestError(503, f"{MOST_WAITING} requests for loads over time are waiting already. Try again.")
        self._waiting += 1
        try:
            async with self._reading:
                now = asyncio.get_running_loop().time()
                made_at, body = self._cached.get(question) or (now - FRESH_S, b"")
                if now - made_at < FRESH_S:
                    return body
                body = await asyncio.to_thread(
                    self._made, question, tuple(moments), report_holds_ms(self._services.config)
                )
                self._cached.put(question, (asyncio.get_running_loop().time(), body))
                return body
        finally:
            self._waiting -= 1

    def _made(self, question: LoadQuestion, moments: Sequence[Moment], holds_ms: int) -> bytes:
        in_memory = () if question.bundle else moments
        left = untold(question.from_earlier(holds_ms), [moment.at for moment in in_memory])
        recorded = None if left is None else self._recorded(left)
        return msgspec.json.encode(over_time(question, in_memory, recorded, holds_ms=holds_ms))

    def _recorded(self, question: LoadQuestion) -> RecordedLoad:
        read = self._services.load_tables
        if read is None:
            return RecordedLoad({}, question.until_ms, _NO_TABLES)
        try:
            return read(question)
        except ModuleNotFoundError as error:
            sentence = f"The pipeline's tables need {error.name}: pip install '{DISTRIBUTION}[history]' on the broker."
            return RecordedLoad({}, question.until_ms, sentence)
        except OSError as error:
            log.warning("load_tables_unreadable", reason=str(error))
            return RecordedLoad(
                {}, question.until_ms, "The pipeline's tables cannot be read; this broker's log has the reason."
            )
