"""The options of `format("pulsar")`, checked before anything is connected; docs/pulsar-source.md describes them."""

import datetime
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pulsar_barycenter.naming.errors import InvalidNameError
from pulsar_barycenter.naming.topic import TopicName
from pulsar_barycenter.pipeline.pulsar_source.positions import EARLIEST, Position


class PulsarSourceError(Exception):
    """The source cannot continue to read from Pulsar; the text says why and what to do."""


class OptionError(PulsarSourceError):
    """An option of the data source `pulsar` is missing, is unknown or has an invalid value."""

    def __init__(self, option: str, problem: str) -> None:
        super().__init__(f"option {option}: {problem}")
        self.option = option


@dataclass(frozen=True, slots=True)
class Earliest:
    """The position before the first message that the topic still has."""


@dataclass(frozen=True, slots=True)
class Latest:
    """The position after the last message, at the time of the request."""


@dataclass(frozen=True, slots=True)
class Since:
    """The position before the first message that was published at `time_ms` or later (epoch ms; the clocks of the
    producers set the time of a message).
    """

    time_ms: int


Place = Position | Earliest | Latest | Since


@dataclass(frozen=True, slots=True)
class Places:
    """The positions at which reading of topics begins, or ends. `of_topic` maps the full name of a topic to its
    position; for all other topics the position is `everywhere`.

    The name of a partitioned topic in `of_topic` applies to all its partitions that `of_topic` does not name
    themselves.
    """

    everywhere: Place
    of_topic: Mapping[str, Place] = field(default_factory=dict)

    def of(self, topic: str) -> Place:
        found = self.of_topic.get(topic)
        if found is None:
            found = self.of_topic.get(str(TopicName.parse(topic).partitioned_name))
        return self.everywhere if found is None else found


@dataclass(frozen=True, slots=True)
class TopicsPattern:
    """The option topicsPattern: the topics of `namespace` whose whole local name matches the regular expression
    `local_name`; the admin REST at `admin_url` lists the topics.
    """

    namespace: str
    local_name: str
    admin_url: str


@dataclass(frozen=True, slots=True)
class ServiceOptions:
    """The addresses, credentials and TLS settings for the cluster. Times are in ms."""

    service_url: str
    auth_plugin: str | None = None
    auth_params: str = ""
    trust_certs_file: str | None = None
    allow_insecure_connection: bool = False
    verify_hostname: bool = False
    operation_timeout_ms: int = 30_000


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """All options of the data source, parsed. `starting` is where reading begins; None: a batch query begins at the
    earliest message, a stream after the latest.
    """

    service: ServiceOptions
    topics: tuple[str, ...] = ()
    pattern: TopicsPattern | None = None
    starting: Places | None = None
    ending: Places = Places(Latest())
    max_messages_per_trigger: int | None = None
    subscription: str | None = None
    poll_timeout_ms: int = 60_000
    fail_on_data_loss: bool = True


_SUBJECTS: Final = ("topic", "topics", "topicsPattern")
_OPTIONS: Final = (
    *("service.url", "admin.url", *_SUBJECTS, "startingOffsets", "endingOffsets"),
    *("maxMessagesPerTrigger", "subscription", "pollTimeoutMs", "failOnDataLoss"),
    *("pulsar.client.authPluginClassName", "pulsar.client.authParams", "pulsar.client.operationTimeoutMs"),
    *("pulsar.client.tlsTrustCertsFilePath", "pulsar.client.tlsAllowInsecureConnection"),
    "pulsar.client.tlsHostnameVerificationEnable",
)


def parse_options(options: Mapping[str, str]) -> SourceOptions:
    """Return the parsed `options`; their names are case-insensitive.

    Raises:
        OptionError: an option is missing, unknown, or has an invalid value.
    """
    read = _Reader({name.lower(): value for name, value in options.items()})
    topics, pattern = _subject(read)
    starting = read.get("startingOffsets")
    ending = read.get("endingOffsets")
    return SourceOptions(
        service=_service(read),
        topics=topics,
        pattern=pattern,
        starting=None if starting is None else _places("startingOffsets", starting, Earliest()),
        ending=Places(Latest()) if ending is None else _ending(ending),
        max_messages_per_trigger=read.number("maxMessagesPerTrigger", None),
        subscription=read.get("subscription"),
        poll_timeout_ms=read.number("pollTimeoutMs", 60_000) or 0,
        fail_on_data_loss=read.flag("failOnDataLoss", default=True),
    )


class _Reader:
    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = options
        known = {name.lower() for name in _OPTIONS}
        for name in sorted(options):
            if name not in known:
                raise OptionError(name, f"this option does not exist; the options are {', '.join(_OPTIONS)}")

    def get(self, name: str) -> str | None:
        value = self._options.get(name.lower())
        return None if value is None or not value.strip() else value.strip()

    def number(self, name: str, default: int | None) -> int | None:
        text = self.get(name)
        if text is None:
            return default
        if not (text.isascii() and text.isdecimal()) or int(text) == 0:
            raise OptionError(name, f"the value must be an integer of at least 1, not {text!r}")
        return int(text)

    def flag(self, name: str, *, default: bool) -> bool:
        text = (self.get(name) or str(default)).lower()
        if text not in ("true", "false"):
            raise OptionError(name, f"the value must be true or false, not {text!r}")
        return text == "true"


def _service(read: _Reader) -> ServiceOptions:
    url = read.get("service.url")
    if url is None:
        raise OptionError(
            "service.url", "the option is missing; set it to the URL of a broker, such as pulsar://localhost:6650"
        )
    if not re.match(r"pulsar(\+ssl)?://[^/\s]+", url):
        raise OptionError("service.url", f"the URL must begin with pulsar:// or pulsar+ssl:// and a host, not {url!r}")
    plugin, params = read.get("pulsar.client.authPluginClassName"), read.get("pulsar.client.authParams")
    if params is not None and plugin is None:
        raise OptionError(
            "pulsar.client.authParams", "this option needs pulsar.client.authPluginClassName; set that option as well"
        )
    return ServiceOptions(
        service_url=url,
        auth_plugin=plugin,
        auth_params=params or "",
        trust_certs_file=read.get("pulsar.client.tlsTrustCertsFilePath"),
        allow_insecure_connection=read.flag("pulsar.client.tlsAllowInsecureConnection", default=False),
        verify_hostname=read.flag("pulsar.client.tlsHostnameVerificationEnable", default=False),
        operation_timeout_ms=read.number("pulsar.client.operationTimeoutMs", 30_000) or 0,
    )


def _subject(read: _Reader) -> tuple[tuple[str, ...], TopicsPattern | None]:
    given = [name for name in _SUBJECTS if read.get(name) is not None]
    if len(given) != 1:
        raise OptionError(" or ".join(_SUBJECTS), f"exactly one of these options must be set; {len(given)} are set")
    (name,) = given
    text = read.get(name) or ""
    if name == "topicsPattern":
        return (), _pattern(text, read.get("admin.url"))
    names = [text] if name == "topic" else [part.strip() for part in text.split(",") if part.strip()]
    topics = tuple(dict.fromkeys(_topic(name, each) for each in names))
    if not topics:
        raise OptionError(name, "the value names no topic")
    for topic in topics:
        base = str(TopicName.parse(topic).partitioned_name)
        if base != topic and base in topics:
            raise OptionError(
                name,
                f"{topic} is a partition of {base}, and both are named: leave out the partition or the partitioned"
                " topic",
            )
    return topics, None


def _topic(option: str, text: str) -> str:
    try:
        topic = TopicName.parse(text)
    except InvalidNameError as error:
        raise OptionError(option, str(error)) from error
    if not topic.is_persistent:
        raise OptionError(
            option,
            f"the topic {topic} does not store messages, so they cannot be read again after a failure; name a"
            " persistent topic",
        )
    return str(topic)


def _pattern(text: str, admin_url: str | None) -> TopicsPattern:
    option = "topicsPattern"
    if admin_url is None:
        raise OptionError(
            "admin.url",
            "the option topicsPattern needs an admin.url to list topics; set admin.url, such as to"
            " http://localhost:8080",
        )
    if not re.match(r"https?://[^/\s]+", admin_url):
        raise OptionError("admin.url", f"the URL must begin with http:// or https:// and a host, not {admin_url!r}")
    domain, separator, rest = text.rpartition("://")
    if domain == "non-persistent":
        raise OptionError(option, "non-persistent topics do not store messages; name persistent topics")
    pieces = rest.split("/", 2)
    if separator and (len(pieces) != 3 or domain != "persistent"):
        raise OptionError(
            option, f"the pattern must have the form persistent://tenant/namespace/expression, not {text!r}"
        )
    namespace, local = ("/".join(pieces[:2]), pieces[2]) if len(pieces) == 3 else ("public/default", rest)
    try:
        re.compile(local)
    except re.error as error:
        raise OptionError(option, f"{local!r} is not a regular expression: {error}") from error
    return TopicsPattern(namespace, local, admin_url.rstrip("/"))


def _ending(text: str) -> Places:
    places = _places("endingOffsets", text, Latest())
    for place in (places.everywhere, *places.of_topic.values()):
        if not isinstance(place, Position | Latest):
            raise OptionError(
                "endingOffsets", 'the value must be "latest", or JSON that maps topics to a position or "latest"'
            )
    return places


def _places(option: str, text: str, others: Place) -> Places:
    """Return the parsed value of the option startingOffsets or endingOffsets (`option`). `others` is the position for
    topics that the value does not name.
    """
    if not text.startswith("{"):
        return Places(_named_place(option, text))
    try:
        named = json.loads(text)
    except ValueError as error:
        raise OptionError(option, f"the value is not valid JSON: {error}") from error
    return Places(others, {_topic(option, name): _place(option, value) for name, value in named.items()})


def _place(option: str, value: Any) -> Place:
    if isinstance(value, str):
        return _named_place(option, value)
    try:
        position = Position.from_json(value)
    except ValueError as error:
        raise OptionError(option, str(error)) from error
    return Earliest() if position == EARLIEST else position


_NAMED: Final[Mapping[str, Callable[[], Place]]] = {"earliest": Earliest, "latest": Latest}


def _named_place(option: str, text: str) -> Place:
    named = _NAMED.get(text.lower())
    if named is not None:
        return named()
    if text.isascii() and text.isdecimal():
        return Since(int(text))
    try:
        time = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise OptionError(
            option,
            'the value must be "earliest", "latest", a time such as 2026-01-31T12:00:00Z or in ms since 1970, or'
            f" JSON that maps topics to one of these or a position, not {text!r}",
        ) from None
    if time.tzinfo is None:
        raise OptionError(option, f"the time {text!r} has no offset from UTC; add Z if it is in UTC")
    return Since(round(time.timestamp() * 1000))
