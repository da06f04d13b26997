"""Reads topics of a cluster through the Pulsar client: their names, their last messages, and ranges of messages.

The client has no call for the last message. A reader is opened at the latest message (inclusive) and asked whether a
message is available; this moves it to the last message, which it then reads. If that message cannot be read alone,
because it is the last chunk of a large message or is deleted, all messages after the last known position are read
instead.
"""

import json
import re
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from typing import Any, Final
from urllib.parse import quote

import pulsar

from pulsar_barycenter.naming.topic import TopicName
from pulsar_barycenter.pipeline.pulsar_source.options import (
    OptionError,
    PulsarSourceError,
    ServiceOptions,
    SourceOptions,
    TopicsPattern,
)
from pulsar_barycenter.pipeline.pulsar_source.positions import EARLIEST, WHOLE_ENTRY, Position

_STEP_MS: Final = 1_000
"""How long a read waits for a message before it checks whether the topic has more messages."""

_PAUSE_S: Final = 0.1

_MOVING: Final = (
    pulsar.exceptions.BrokerMetadataError,  # the reader is not attached again yet
    pulsar.exceptions.NotConnected,
    pulsar.exceptions.ServiceUnitNotReady,
)


class MessagesGoneError(PulsarSourceError):
    """A query was to read messages that the topic no longer has: they, or the whole topic, were deleted in the
    meantime.
    """

    def __init__(self, topic: str, reached: Position, end: Position) -> None:
        super().__init__(
            f"{topic} ends at {reached.to_json()} now, but was to be read up to {end.to_json()}: retention removed "
            f"messages, or the topic was deleted. Set failOnDataLoss to false to continue without them."
        )


def connect(service: ServiceOptions) -> pulsar.Client:
    """Return a Pulsar client, which connects at its first use.

    Raises:
        PulsarSourceError: the client refuses these options.
    """
    timeout_s = max(1, round(service.operation_timeout_ms / 1000))
    tls: dict[str, Any] = {"tls_trust_certs_file_path": service.trust_certs_file} if service.trust_certs_file else {}
    with _told(service, "make a client"):
        authentication = None if service.auth_plugin is None else _authentication(service)
        return pulsar.Client(
            service.service_url,
            authentication=authentication,
            operation_timeout_seconds=timeout_s,
            connection_timeout_ms=min(10_000, service.operation_timeout_ms),
            tls_allow_insecure_connection=service.allow_insecure_connection,
            tls_validate_hostname=service.verify_hostname,
            logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error),
            **tls,
        )


def _authentication(service: ServiceOptions) -> pulsar.Authentication:
    try:
        made = pulsar.Authentication(service.auth_plugin, service.auth_params)
    except (RuntimeError, ValueError) as error:
        raise OptionError(
            "pulsar.client.authParams", f"the value does not have the form that {service.auth_plugin} needs: {error}"
        ) from error
    if made.auth is None:  # the client would continue without authentication
        raise OptionError(
            "pulsar.client.authPluginClassName",
            f"the client has no plugin {service.auth_plugin!r}; it has token, tls, basic, oauth2token and athenz",
        )
    return made


class Topics:
    """Reads the topics of one cluster through one Pulsar client. An object cannot be pickled; the caller must
    close it.
    """

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._client = connect(options.service)

    def close(self) -> None:
        # Not close(): it waits for every reader that a failure left open.
        self._client.shutdown()

    def names(self) -> list[str]:
        """Return the full names of all topics and partitions to read, sorted; empty if the pattern matches no topic.

        Raises:
            PulsarSourceError: the cluster or a topic cannot be reached.
        """
        pattern = self._options.pattern
        topics = self._options.topics if pattern is None else matching_topics(pattern, self._options.service)
        found: set[str] = set()
        for topic in topics:
            with self.told(f"find the partitions of {topic}", topic):
                found.update(self._client.get_topic_partitions(topic))
        return sorted(found)

    def last(self, topic: str, known: Position = EARLIEST) -> Position:
        """Return the position of the topic's last message. If `known` is later, or the topic is empty, return
        `known`.
        """
        with self.told(f"find the last message of {topic}", topic), closing(self.tail(topic)) as tail:
            return tail.last(known)

    def tail(self, topic: str) -> "Tail":
        """Return a `Tail`, which can find the last message of the topic again and again. The caller must close it."""
        return Tail(self, topic)

    def before(self, topic: str, time_ms: int) -> Position:
        """Return the position before the first message published at or after `time_ms`.

        If there is no such message, return the position of the last message.
        """
        with self.told(f"find the messages of {topic} from a time on", topic):
            with closing(self.open(topic, EARLIEST)) as reader:
                reader.seek(time_ms)
                while self.has_more(reader):
                    try:
                        message = reader.read_next(_STEP_MS)
                    except pulsar.Timeout:
                        break
                    if message.publish_timestamp() >= time_ms:
                        return Position.of(message.message_id()).before()
            return self.last(topic)

    def bookmark(self, topic: str, subscription: str) -> "Bookmark":
        """Return a `Bookmark` for the subscription `subscription` of the topic. If the subscription does not exist, it
        is created before the first message of the topic.

        Raises:
            PulsarSourceError: the client cannot subscribe.
        """
        with self.told(f"subscribe to {topic} as {subscription}", topic):
            consumer = self._client.subscribe(
                topic,
                subscription,
                # Not exclusive: the process of a query just stopped may still be attached.
                consumer_type=pulsar.ConsumerType.Failover,
                initial_position=pulsar.InitialPosition.Earliest,
                receiver_queue_size=1,
            )
        return Bookmark(consumer, self, topic)

    def messages(self, topic: str, start: Position, end: Position) -> Iterator[pulsar.Message]:
        """Yield the messages after `start` (exclusive) up to `end` (inclusive), in order, each once.

        Raises:
            MessagesGoneError: the topic has no more messages, but `end` is not reached, and the option `failOnDataLoss`
                is true. If it is false, iteration ends instead.
            PulsarSourceError: no message arrived for `pollTimeoutMs`, or the topic cannot be read.
        """
        options = self._options
        with self.told(f"read {topic}", topic), closing(self.open(topic, start)) as reader:
            reached, waited_ms = start, 0
            while reached < end:
                try:
                    message = reader.read_next(_STEP_MS)
                except pulsar.Timeout:
                    if not self.has_more(reader):
                        if options.fail_on_data_loss:
                            raise MessagesGoneError(topic, reached, end) from None
                        return
                    waited_ms += _STEP_MS
                    if waited_ms >= options.poll_timeout_ms:
                        raise PulsarSourceError(
                            f"{topic} returned no message for {waited_ms} ms (pollTimeoutMs), although it has"
                            f" messages after {reached.to_json()}: check the broker that owns the topic, and try"
                            " again"
                        ) from None
                    continue
                waited_ms = 0
                position = Position.of(message.message_id())
                if start < position <= end:
                    yield message
                reached = max(reached, position)

    def open(self, topic: str, start: Position, *, queue: int = 1_000) -> pulsar.Reader:
        """Return a reader for the messages after `start`. The first messages that it returns may be at or before
        `start`: the caller must skip them. `queue` is the number of messages that the client fetches in advance.
        """
        index = -1 if start.batch_index == WHOLE_ENTRY else start.batch_index
        partition = TopicName.parse(topic).partition_index
        first = pulsar.MessageId(partition, start.ledger, start.entry, index)
        with self.told(f"read {topic}", topic):
            return self._client.create_reader(topic, first, receiver_queue_size=queue)

    def open_last(self, topic: str) -> pulsar.Reader:
        """Return a reader that begins at the last message of the topic (inclusive). It may return no message although
        the topic has some; the caller must then find the last message in another way.
        """
        with self.told(f"read {topic}", topic):
            latest = pulsar.MessageId.latest
            return self._client.create_reader(topic, latest, start_message_id_inclusive=True, receiver_queue_size=1)

    def has_more(self, reader: pulsar.Reader) -> bool:
        """Return whether the topic has more messages for `reader`. While the topic moves to another broker, this waits,
        at most for the client's operation timeout. Then it raises the error of the Pulsar client.
        """
        deadline = time.monotonic() + self._options.service.operation_timeout_ms / 1000
        while True:
            try:
                return bool(reader.has_message_available())
            except _MOVING:
                if time.monotonic() >= deadline:
                    raise
                time.sleep(_PAUSE_S)

    def told(self, doing: str, topic: str) -> AbstractContextManager[None]:
        """Return a context manager that converts errors which the Pulsar client raises in its block to
        PulsarSourceError.

        The error's text is "cannot " and the text `doing` (for example "read persistent://t/n/topic"), then the cause
        and what to do.
        """
        return _told(self._options.service, doing, topic)


class Tail:
    """Finds the position of the last message of one topic, again and again. A call is cheap if no message was added
    since the call before.
    """

    def __init__(self, topics: Topics, topic: str) -> None:
        self._topics = topics
        self._topic = topic
        self._reader: pulsar.Reader | None = None
        self._last = EARLIEST

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def last(self, known: Position) -> Position:
        """Return the position of the topic's last message. If `known` is later, or the topic is empty, return
        `known`.
        """
        with self._topics.told(f"find the last message of {self._topic}", self._topic):
            if self._reader is not None and self._topics.has_more(self._reader):
                self.close()
            if self._reader is None:
                self._last = self._find(known)
            return max(self._last, known)

    def _find(self, known: Position) -> Position:
        reader = self._topics.open_last(self._topic)
        try:
            if not self._topics.has_more(reader):
                reader.close()
                return EARLIEST
            position = Position.of(reader.read_next(_STEP_MS).message_id())
        except pulsar.Timeout:
            reader.close()
            return self._read_on(known)
        except BaseException:
            reader.close()
            raise
        self._reader = reader
        return position

    def _read_on(self, known: Position) -> Position:
        """Read all messages of the topic after the position `known`, and return the position of the last message."""
        with closing(MessageCounter(self._topics, self._topic, known)) as counter:
            counter.advance(None, None)
            return counter.position


class MessageCounter:
    """Counts the messages of a topic by reading them, when Spark plans a batch. `position` is the position of the last
    counted message.
    """

    def __init__(self, topics: Topics, topic: str, start: Position) -> None:
        self._reader = topics.open(topic, start)
        self._topics = topics
        self._topic = topic
        self.position = start

    def close(self) -> None:
        self._reader.close()

    def advance(self, count: int | None, end: Position | None) -> int:
        """Count the next messages: at most `count` (None: no limit), and none after `end` (inclusive; None: no limit).
        Return how many were counted. The counting also ends when the topic has no more messages.
        """
        passed = 0
        with self._topics.told(f"count the messages of {self._topic}", self._topic):
            while (count is None or passed < count) and (end is None or self.position < end):
                if not self._topics.has_more(self._reader):
                    break
                try:
                    position = Position.of(self._reader.read_next(_STEP_MS).message_id())
                except pulsar.Timeout:
                    break
                if position > self.position:
                    self.position = position
                    passed += 1
        return passed


class Bookmark:
    """A durable subscription to one topic. The topic keeps the messages that the subscription has not acknowledged,
    which are those that the stream has not read.
    """

    def __init__(self, consumer: pulsar.Consumer, topics: Topics, topic: str) -> None:
        self._consumer = consumer
        self._topics = topics
        self._topic = topic
        self._moved_to = EARLIEST

    def move(self, position: Position) -> None:
        """Acknowledge all messages up to `position` (inclusive). If `position` is inside a batch of messages, this
        batch is not acknowledged.
        """
        if position <= self._moved_to:
            return
        entry = position.entry if position.batch_index == WHOLE_ENTRY else position.entry - 1
        partition = TopicName.parse(self._topic).partition_index
        with self._topics.told(f"move the subscription of {self._topic}", self._topic):
            if entry >= 0:
                self._consumer.acknowledge_cumulative(pulsar.MessageId(partition, position.ledger, entry, -1))
        self._moved_to = position


def matching_topics(pattern: TopicsPattern, service: ServiceOptions) -> list[str]:
    """Return the names of the topics that a pattern matches, sorted. For a partitioned topic, its own name is returned,
    not the names of its partitions.

    Raises:
        PulsarSourceError: the admin REST API does not answer, or refuses the request.
    """
    expression = re.compile(pattern.local_name)
    base = f"{pattern.admin_url}/admin/v2/persistent/{quote(pattern.namespace)}"
    partitioned = {str(topic) for topic in _get(f"{base}/partitioned", service)}
    topics = partitioned | {
        topic for topic in _get(base, service) if str(TopicName.parse(topic).partitioned_name) not in partitioned
    }
    return sorted(topic for topic in topics if expression.fullmatch(TopicName.parse(topic).local_name))


def _get(url: str, service: ServiceOptions) -> list[str]:
    """Send a GET request to `url` and return the JSON list in the response. The request has the token of the Pulsar
    client if the client uses token authentication.
    """
    request = urllib.request.Request(url)  # noqa: S310 - the option admits http and https alone
    if service.auth_plugin == "token" or (service.auth_plugin or "").endswith("AuthenticationToken"):
        request.add_header("Authorization", f"Bearer {service.auth_params.removeprefix('token:')}")
    try:
        timeout_s, trust = service.operation_timeout_ms / 1000, _trust(service)
        with urllib.request.urlopen(request, timeout=timeout_s, context=trust) as answer:  # noqa: S310
            return list(json.load(answer))
    except urllib.error.HTTPError as error:
        reason = _reason(error.read()) or f"{error.reason}; check the option admin.url"
        raise PulsarSourceError(f"cannot list the topics: {url} answered {error.code}: {reason}") from error
    except (OSError, ValueError) as error:
        option = "pulsar.client.tlsTrustCertsFilePath" if "CERTIFICATE_VERIFY_FAILED" in str(error) else "admin.url"
        raise PulsarSourceError(f"cannot list the topics: {url}: {error}; check the option {option}") from error


def _trust(service: ServiceOptions) -> ssl.SSLContext:
    """Return a TLS context that trusts the same certificates as the Pulsar client, and checks host names. If the
    options allow insecure connections, neither certificates nor host names are checked.
    """
    context = ssl.create_default_context(cafile=service.trust_certs_file)
    # Since Python 3.13 this flag makes it refuse authorities that Pulsar clients accept.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if service.allow_insecure_connection:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _reason(answer: bytes) -> str:
    """Return the reason in Pulsar's error response `answer`; an empty text if the response is an HTML page."""
    try:
        return str(json.loads(answer)["reason"])
    except (ValueError, LookupError, TypeError):
        text = answer[:500].decode(errors="replace").strip()
        return "" if text.startswith("<") else text


@contextmanager
def _told(service: ServiceOptions, doing: str, topic: str = "") -> Iterator[None]:
    try:
        yield
    except pulsar.exceptions.PulsarException as error:
        raise PulsarSourceError(f"cannot {doing}: {_advice(service, topic, error)}") from error


_ADVICE: Final[tuple[tuple[str, Callable[[str, str], str]], ...]] = (
    ("TopicNotFound", lambda _, topic: f"there is no topic {topic}; check its name, or create it"),
    ("AuthenticationError", lambda _u, _t: "the cluster does not accept the credentials in pulsar.client.authParams"),
    ("AuthorizationError", lambda _, topic: f"the cluster does not allow these credentials to read {topic}"),
    ("ConnectError", lambda url, _: f"no broker answers at {url}"),
    ("Timeout", lambda url, _: f"{url} did not answer in time"),
    ("BrokerMetadataError", lambda _, topic: f"the cluster does not know {topic} or its namespace; check the name"),
)


def _advice(service: ServiceOptions, topic: str, error: Exception) -> str:
    for name, advice in _ADVICE:
        if type(error).__name__ == name:
            to_check = f"; {_what_to_check(service)}" if name in ("ConnectError", "Timeout") else ""
            return f"{advice(service.service_url, topic)}{to_check} ({error})"
    return str(error)


def _what_to_check(service: ServiceOptions) -> str:
    """Return a text that says what to check if no broker answers, because the Pulsar client does not report why a
    broker closed the connection.
    """
    checks = ["service.url", "that the broker runs"]
    if service.service_url.startswith("pulsar+ssl:"):
        checks.append(
            "that it serves TLS there, with a certificate from an authority in pulsar.client.tlsTrustCertsFilePath"
        )
    if service.auth_plugin is not None:
        checks.append("that it accepts the credentials in pulsar.client.authParams")
    return f"check {', '.join(checks[:-1])} and {checks[-1]}"
