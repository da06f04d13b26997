"""Publishes load reports as messages of a topic, so that any Pulsar client can follow a cluster's load.

    persistent://pulsar/system/load-reports      key: the broker's id; value: the report as JSON, as a line of the log

A thread publishes with the stock client through this broker's own port; the client looks up the topic and reconnects,
whichever broker owns the topic. Reports wait while the topic cannot be reached; beyond `WAITING` the oldest is dropped.
A report whose receipt is lost is sent again, so it may be in the topic twice, with the same incarnation and sequence.
Reports that still wait when the broker stops are not published.
"""

import os
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Protocol

import structlog

from pulsar_barycenter.cluster_logs.load_report_log import ReportLog
from pulsar_barycenter.credentials.tls import ClientTls
from pulsar_barycenter.load.reports.load_report import LOAD_REPORT_TOPIC, LocalBrokerData, encode_report

log = structlog.get_logger(__name__)

WAITING: Final = 1_000

_PAUSE_S: Final = 1.0
_TIMEOUT_S: Final = 10


class ReportSender(Protocol):
    """A connection to the topic to which load reports are published. `send` and `close` may block, and may raise any
    error.
    """

    def send(self, report: LocalBrokerData) -> None:
        """Publish `report`; when this returns, the report is stored."""
        ...

    def close(self) -> None: ...


class TopicReportLog:
    """Publishes load reports in a topic, from a thread of its own. `connect` is called in the thread to create the
    sender; it may block and raise errors. `append` and `close` neither block nor raise errors.
    """

    def __init__(self, connect: Callable[[], ReportSender], *, pause_s: float = _PAUSE_S) -> None:
        self._connect = connect
        self._pause_s = pause_s
        self._waiting: deque[LocalBrokerData] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._thread: threading.Thread | None = None

    def append(self, report: LocalBrokerData) -> None:
        dropped = None
        with self._changed:
            if self._closed:
                return
            if len(self._waiting) >= WAITING:
                dropped = self._waiting.popleft()
            self._waiting.append(report)
            self._changed.notify_all()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="load report topic", daemon=True)
                self._thread.start()
        if dropped is not None:
            log.warning(
                "load_report_not_published", sequence=dropped.sequence, reason=f"dropped: {WAITING} newer ones wait"
            )

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._waiting.clear()
            self._changed.notify_all()

    def _run(self) -> None:
        sender: ReportSender | None = None
        while (report := self._next()) is not None:
            try:
                sender = sender or self._connect()
                sender.send(report)
            except Exception as error:  # noqa: BLE001 - reporting goes on after any error
                log.warning("load_report_not_published", sequence=report.sequence, reason=str(error), tried_again=True)
                _close(sender)
                sender = None
                self._pause()
            else:
                self._done(report)
        _close(sender)

    def _next(self) -> LocalBrokerData | None:
        """Wait until there is a report that is not published, and return the oldest; None after `close`."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closed)
            return None if self._closed else self._waiting[0]

    def _done(self, report: LocalBrokerData) -> None:
        with self._changed:
            if self._waiting and self._waiting[0] is report:  # else it was dropped in between
                self._waiting.popleft()

    def _pause(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._closed, self._pause_s)


class ClientReportSender:
    """Publishes load reports with the stock Pulsar client at `service_url`, with the broker's own credentials."""

    def __init__(self, service_url: str, tls: ClientTls | None = None) -> None:
        import pulsar  # only a broker that publishes needs it

        quiet = pulsar.FileLogger(pulsar.LoggerLevel.Error, os.devnull)  # the broker logs failures itself
        tls = tls or ClientTls()
        shows, authentication = tls.shows, None
        if shows.method == "token":
            authentication = pulsar.AuthenticationToken(shows.token_in_thread)
        elif shows.method == "basic":
            authentication = pulsar.AuthenticationBasic(*(shows.auth_data() or b"").decode().split(":", 1))
        elif shows.method == "tls":
            authentication = pulsar.AuthenticationTLS(shows.certificate_file, shows.key_file)
        self._client = pulsar.Client(
            service_url,
            authentication=authentication,
            operation_timeout_seconds=_TIMEOUT_S,
            logger=quiet,
            tls_trust_certs_file_path=tls.trust_file or None,
            tls_allow_insecure_connection=not tls.verifies,
            tls_validate_hostname=tls.verifies and tls.verifies_host_name,
        )
        try:
            self._producer = self._client.create_producer(
                LOAD_REPORT_TOPIC,
                send_timeout_millis=_TIMEOUT_S * 1000,
                chunking_enabled=True,  # a report of very many bundles exceeds the maximum message size
            )
        except BaseException:
            self._client.shutdown()
            raise

    def send(self, report: LocalBrokerData) -> None:
        self._producer.send(
            encode_report(report), partition_key=report.broker_id, event_timestamp=max(0, report.last_update)
        )

    def close(self) -> None:
        self._client.shutdown()


class ReportLogs:
    """A log of load reports that consists of several others: each report is appended to all of them."""

    def __init__(self, *logs: ReportLog) -> None:
        self._logs = logs

    def append(self, report: LocalBrokerData) -> None:
        for report_log in self._logs:
            report_log.append(report)

    def close(self) -> None:
        for report_log in self._logs:
            report_log.close()


def _close(sender: ReportSender | None) -> None:
    if sender is not None:
        with suppress(Exception):
            sender.close()
