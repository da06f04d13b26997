"""Readers of a topic that moves to another broker: they are asked again, not given up."""

from collections.abc import Iterator

import pulsar
import pytest

from barycenter.pipeline.pulsar_options import parse_options
from barycenter.pipeline.pulsar_topics import Topics

TOPIC = "persistent://public/default/orders"


class Reader:
    """Answers with what it is given, or raises it; the last answer again and again."""

    def __init__(self, *answers: bool | Exception) -> None:
        self._answers = list(answers)

    def has_message_available(self) -> bool:
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def topics() -> Iterator[Topics]:
    options = {"service.url": "pulsar://localhost:1", "topic": TOPIC, "pulsar.client.operationTimeoutMs": "300"}
    topics = Topics(parse_options(options))  # connects when it is used
    yield topics
    topics.close()


def test_a_reader_that_is_not_attached_again_yet_is_asked_again(topics: Topics) -> None:
    moving = (pulsar.exceptions.BrokerMetadataError(""), pulsar.exceptions.NotConnected(""))
    assert topics.has_more(Reader(*moving, True)) is True
    assert topics.has_more(Reader(*moving, False)) is False


def test_asking_ends_with_the_operation_timeout(topics: Topics) -> None:
    with pytest.raises(pulsar.exceptions.BrokerMetadataError):
        topics.has_more(Reader(pulsar.exceptions.BrokerMetadataError("")))


def test_other_errors_are_final(topics: Topics) -> None:
    with pytest.raises(pulsar.exceptions.AuthorizationError):
        topics.has_more(Reader(pulsar.exceptions.AuthorizationError(""), True))
