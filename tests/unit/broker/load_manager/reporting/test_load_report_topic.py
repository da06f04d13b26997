"""Publishing of reports to the topic: in order, with retries, and without delaying the broker."""

import threading
from itertools import count

from structlog.testing import capture_logs

from pulsar_barycenter.broker.load_manager.reporting.load_report_topic import WAITING, ReportLogs, TopicReportLog
from pulsar_barycenter.load.reports.load_report import LocalBrokerData
from support.report_log import MemoryReportLog

WAIT_S = 30


def report(sequence: int) -> LocalBrokerData:
    return LocalBrokerData(broker_id="b:1", sequence=sequence)


class Topic:
    """A topic that accepts a report if the next answer says so; without more answers it accepts all."""

    def __init__(self, *answers: bool) -> None:
        self.answers = list(answers)
        self.stored: list[int] = []
        self.connections = 0
        self.closed = 0
        self.changed = threading.Condition()

    def connect(self) -> "Topic":
        self._answer("no broker")
        self.connections += 1
        return self

    def send(self, sent: LocalBrokerData) -> None:
        self._answer("no receipt")
        with self.changed:
            self.stored.append(sent.sequence)
            self.changed.notify_all()

    def close(self) -> None:
        with self.changed:
            self.closed += 1
            self.changed.notify_all()

    def wait_for(self, stored: int = 0, closed: int = 0) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.stored) >= stored and self.closed >= closed, WAIT_S)

    def _answer(self, problem: str) -> None:
        if self.answers and not self.answers.pop(0):
            raise OSError(problem)


def test_reports_are_published_in_order_over_one_connection() -> None:
    topic = Topic()
    log = TopicReportLog(topic.connect)
    for sequence in range(1, 21):
        log.append(report(sequence))
    topic.wait_for(stored=20)
    log.close()
    topic.wait_for(closed=1)
    assert (topic.stored, topic.connections) == (list(range(1, 21)), 1)


def test_a_failure_is_told_and_the_report_is_tried_again() -> None:
    """Twice no connection, then one that breaks at the second report."""
    topic = Topic(False, False, True, True, False)
    log = TopicReportLog(topic.connect, pause_s=0)
    with capture_logs() as told:
        for sequence in (1, 2, 3):
            log.append(report(sequence))
        topic.wait_for(stored=3)
    log.close()
    assert topic.stored == [1, 2, 3]
    assert [(entry["event"], entry["sequence"], entry["reason"]) for entry in told] == [
        ("load_report_not_published", 1, "no broker"),
        ("load_report_not_published", 1, "no broker"),
        ("load_report_not_published", 2, "no receipt"),
    ]


def test_a_topic_that_does_not_answer_keeps_nobody_waiting() -> None:
    """The broker goes on; of too many reports the oldest is given up, and closing does not wait."""
    answers = threading.Event()
    topic = Topic()

    def connect() -> Topic:
        assert answers.wait(WAIT_S)
        return topic.connect()

    log = TopicReportLog(connect)
    with capture_logs() as told:
        for sequence in range(WAITING + 2):
            log.append(report(sequence))
    assert [entry["sequence"] for entry in told] == [0, 1]
    answers.set()
    with topic.changed:
        assert topic.changed.wait_for(lambda: WAITING + 1 in topic.stored, WAIT_S)
    assert [sequence for sequence in topic.stored if sequence > 1] == list(range(2, WAITING + 2))
    log.close()


def test_a_closed_log_takes_nothing_and_lets_its_connection_go() -> None:
    topic = Topic()
    log = TopicReportLog(topic.connect)
    log.append(report(1))
    topic.wait_for(stored=1)
    log.close()
    log.close()
    log.append(report(2))
    topic.wait_for(closed=1)
    assert topic.stored == [1]


def test_closing_ends_the_wait_for_another_try() -> None:
    failures = count()
    tried = threading.Event()

    def connect() -> Topic:
        next(failures)
        tried.set()
        raise OSError("no broker")

    log = TopicReportLog(connect, pause_s=3600)
    log.append(report(1))
    assert tried.wait(WAIT_S)
    (thread,) = (each for each in threading.enumerate() if each.name == "load report topic")
    log.close()
    thread.join(WAIT_S)
    assert not thread.is_alive()
    assert next(failures) == 1


def test_every_log_gets_every_report() -> None:
    logs = [MemoryReportLog(), MemoryReportLog()]
    both = ReportLogs(*logs)
    both.append(report(1))
    both.close()
    assert [[each.sequence for each in log.reports] for log in logs] == [[1], [1]]
