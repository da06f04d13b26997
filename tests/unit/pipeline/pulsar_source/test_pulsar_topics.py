"""Requests to a cluster: readers of topics that move, credentials, topics by pattern, and the errors."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pulsar
import pytest

from pulsar_barycenter.pipeline.pulsar_source.options import (
    OptionError,
    PulsarSourceError,
    ServiceOptions,
    TopicsPattern,
    parse_options,
)
from pulsar_barycenter.pipeline.pulsar_source.topics import Topics, matching_topics

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


def test_a_token_is_shown_to_the_broker() -> None:
    """A listener that reads what the client sends first: CONNECT, with the method and the token."""
    said = b""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def listen() -> None:
            nonlocal said
            connection, _ = server.accept()
            with connection:
                said = connection.recv(4096)

        listener = threading.Thread(target=listen)
        listener.start()
        with pytest.raises(PulsarSourceError, match=r"check service\.url"), closing(asking(server, "token")) as topics:
            topics.names()
        listener.join()
    assert b"token" in said
    assert b"very-secret" in said


def asking(server: socket.socket, plugin: str) -> Topics:
    options = {
        "service.url": f"pulsar://127.0.0.1:{server.getsockname()[1]}",
        "topic": TOPIC,
        "pulsar.client.operationTimeoutMs": "1000",
        "pulsar.client.authPluginClassName": plugin,
        "pulsar.client.authParams": "token:very-secret",
    }
    return Topics(parse_options(options))


@pytest.mark.parametrize(
    ("plugin", "words"),
    [("no-such-plugin", "the client has no plugin 'no-such-plugin'"), ("basic", "the form that basic needs")],
)
def test_credentials_that_the_client_cannot_use_are_told(plugin: str, words: str) -> None:
    """It would go on without any."""
    with socket.create_server(("127.0.0.1", 0)) as server, pytest.raises(OptionError, match=words):
        asking(server, plugin)


class Lists(BaseHTTPRequestHandler):
    """The lists of topics of one namespace, for clients with the token."""

    def do_GET(self) -> None:
        base = "/admin/v2/persistent/shop/eu"
        topics = {
            f"{base}/partitioned": ["orders"],
            base: ["orders-partition-0", "orders-partition-1", "orders-partition-9x", "old-orders", "bills"],
        }
        allowed = self.headers.get("Authorization") == "Bearer very-secret"
        answer = json.dumps([f"persistent://shop/eu/{name}" for name in topics.get(self.path, ())]) if allowed else "no"
        self.send_response(200 if allowed else 401)
        self.end_headers()
        self.wfile.write(answer.encode())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name in the base class
        pass


@pytest.fixture
def admin() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Lists) as server:
        serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        serving.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        serving.join()


@pytest.mark.parametrize(
    ("expression", "names"),
    [
        ("orders", ["orders"]),
        ("orders.*", ["orders", "orders-partition-9x"]),
        (".*orders", ["old-orders", "orders"]),
        ("orders-partition-.", []),
    ],
)
def test_a_pattern_matches_whole_names_and_partitioned_topics_as_such(
    admin: str, expression: str, names: list[str]
) -> None:
    service = ServiceOptions("pulsar://localhost:1", auth_plugin="token", auth_params="token:very-secret")
    found = matching_topics(TopicsPattern("shop/eu", expression, admin), service)
    assert found == [f"persistent://shop/eu/{name}" for name in names]


def test_an_admin_that_refuses_or_is_not_there_is_told(admin: str) -> None:
    service = ServiceOptions("pulsar://localhost:1", operation_timeout_ms=1000)
    with pytest.raises(PulsarSourceError, match=r"cannot list the topics: .* answered 401: no"):
        matching_topics(TopicsPattern("shop/eu", ".*", admin), service)
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        port = nobody.getsockname()[1]
    with pytest.raises(PulsarSourceError, match=r"check the option admin\.url"):
        matching_topics(TopicsPattern("shop/eu", ".*", f"http://127.0.0.1:{port}"), service)
