"""Topic names: parsing, canonical form, partitions, encodings, and the hash that assigns a topic to a bundle.

Source: Pulsar's `TopicName` and `SystemTopicNames`.
"""

import zlib
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final
from urllib.parse import quote_plus, unquote_plus

from pulsar_barycenter.naming.errors import InvalidNameError, UnservedDomainError
from pulsar_barycenter.naming.namespace import MAX_ENTITY_NAME, RESERVED_PATH_SEGMENTS, NamespaceName, heartbeat_broker

PERSISTENT: Final = "persistent"
NON_PERSISTENT: Final = "non-persistent"
DOMAINS: Final = (PERSISTENT, NON_PERSISTENT)
SCALABLE_DOMAINS: Final = ("topic", "segment")
"""The domains of Pulsar 5's scalable topics and their segments, which are not served."""

MAX_LOCAL_NAME_BYTES: Final = 1000
"""The maximum length of a topic's local name (its last part), in UTF-8 bytes, without the suffix `-partition-<n>`.

The REST paths of a topic and a subscription of that length, both encoded, still fit into the 8,190 bytes that HTTP
servers accept.
"""
MAX_PARTITIONS: Final = 10_000
"""The maximum number of partitions of a topic, even if the configuration allows more: each partition is a topic of its
own.
"""

_PARTITION: Final = "-partition-"
_LONGEST_SUFFIX: Final = len(_PARTITION) + 10
_MAX_PARTITION_INDEX: Final = 2**31 - 1
_MEMOISED: Final = 100_000
_LONGEST_MEMOISED: Final = 255
"""The maximum length of a cached topic name that is ASCII, in characters. The whole cache takes at most 0.12 GB."""
_ALWAYS_MEMOISED: Final = _LONGEST_MEMOISED // 4
"""Topic names of up to this many characters are always cached, because each character has at most four bytes."""
_LONGEST_UNMEASURED: Final = MAX_LOCAL_NAME_BYTES // 4
"""Names of up to this many characters need no measuring: even with four bytes each they are within the limit."""
_LONGEST_TEXT: Final = len("non-persistent://") + 3 * (MAX_ENTITY_NAME + 1) + MAX_LOCAL_NAME_BYTES + _LONGEST_SUFFIX
CHANGE_EVENTS: Final = "__change_events"
"""The local name of the system topic that stores the topic policies of a namespace."""
_SYSTEM_LOCAL_NAMES: Final = frozenset(
    {
        CHANGE_EVENTS,
        "__transaction_buffer_snapshot",
        "__transaction_buffer_snapshot_segments",
        "__transaction_buffer_snapshot_indexes",
    }
)
_PENDING_ACK_SUFFIX: Final = "__transaction_pending_ack"


@dataclass(frozen=True, slots=True, eq=False)
class TopicName:
    """A topic, identified by its canonical name, which is used for output, comparison and hashing.

    `local_name` is the last part of the name, not encoded for URLs; it may have any character except NUL. `hash32` is
    the CRC-32 of the canonical name in UTF-8. `partition_index` is n if the local name is at least one character
    followed by `-partition-<n>`, where n is a number without sign and leading zeros; otherwise it is -1.
    """

    domain: str
    namespace: NamespaceName
    local_name: str
    _text: str = field(init=False, repr=False)
    _hash: int = field(init=False, repr=False)
    hash32: int = field(init=False, repr=False)
    partition_index: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        text = f"{self.domain}://{self.namespace}/{self.local_name}"
        try:
            encoded = text.encode()
        except UnicodeEncodeError:
            raise InvalidNameError(text, "Invalid topic name: it is not Unicode text") from None
        put = object.__setattr__
        put(self, "_text", text)
        put(self, "_hash", hash(text))
        put(self, "hash32", zlib.crc32(encoded))
        put(self, "partition_index", _partition_index(self.local_name))
        name = self.local_name
        if len(name) > _LONGEST_UNMEASURED or name in RESERVED_PATH_SEGMENTS or "\0" in name:
            self._check_local_name()

    def _check_local_name(self) -> None:
        base = self.local_name if self.partition_index == -1 else self.local_name.rpartition(_PARTITION)[0]
        check_local_name("topic", base)

    @staticmethod
    def parse(text: str) -> "TopicName":
        """Return the topic of a full name, or of the short forms `topic` and `tenant/namespace/topic`.

        Up to 100,000 results for names that are not unusually long are cached, so that the same name often gives the
        same object.

        Raises:
            InvalidNameError: the text has none of these forms, or a part is too long or has an invalid character.
            UnservedDomainError: the topic is a scalable topic of Pulsar 5, or a segment of one.
        """
        if len(text) <= _ALWAYS_MEMOISED or (len(text) <= _LONGEST_MEMOISED and text.isascii()):
            return _remembered(text)
        return _parsed(text)

    @staticmethod
    def of(domain: str, namespace: NamespaceName, local_name: str) -> "TopicName":
        """Return the topic with these parts. `domain` is `persistent` or `non-persistent`; `local_name` is not encoded
        for URLs.

        Raises:
            InvalidNameError: a part is not valid. Only legacy names may have a `/` in their local name.
        """
        if namespace.is_v2 and "/" in local_name:
            raise InvalidNameError(local_name, "Invalid topic name: the part after the namespace must not contain /")
        return TopicName.parse(f"{domain}://{namespace}/{local_name}")

    @property
    def is_persistent(self) -> bool:
        return self.domain == PERSISTENT

    @property
    def is_partition(self) -> bool:
        return self.partition_index != -1

    @property
    def partitioned_name(self) -> "TopicName":
        """The partitioned topic of which this topic is a partition; the topic itself if it is not a partition."""
        if self.partition_index == -1:
            return self
        return TopicName.parse(self._text[: self._text.rindex(_PARTITION)])

    def partition(self, index: int) -> "TopicName":
        """Return partition `index` of this topic.

        The result is this topic itself if `index` is -1, or if this topic is already partition `index`.

        Raises:
            ValueError: `index` is below -1.
        """
        if index < -1:
            raise ValueError(f"a partition index must not be negative: {index}")
        if index in (-1, self.partition_index):
            return self
        return TopicName.parse(f"{self._text}{_PARTITION}{index}")

    @property
    def encoded_local_name(self) -> str:
        """The local name in URL form encoding, as in metadata paths and REST paths."""
        return encode_local_name(self.local_name)

    @property
    def lookup_name(self) -> str:
        """The REST path: `<domain>/<tenant>/<namespace>/<encoded local name>`."""
        return f"{self.domain}/{self.namespace}/{self.encoded_local_name}"

    @property
    def persistence_name(self) -> str:
        """The name of the managed ledger: `<tenant>/<namespace>/<domain>/<encoded local name>`."""
        return f"{self.namespace}/{self.domain}/{self.encoded_local_name}"

    def __str__(self) -> str:
        return self._text

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, TopicName) and self._text == other._text)

    def __lt__(self, other: "TopicName") -> bool:
        return self._text < other._text


def check_local_name(kind: str, text: str) -> None:
    """Check that `text` is a valid topic or subscription name, which may have any character except NUL.

    `kind` is the word for the named object in the error message, for example "subscription".

    Raises:
        InvalidNameError: `text` is empty, longer than MAX_LOCAL_NAME_BYTES, `.`, `..`, or contains a NUL character.
    """
    if not text:
        raise InvalidNameError(text, f"Invalid {kind} name: it is empty")
    size = len(text.encode(errors="surrogatepass"))
    if size > MAX_LOCAL_NAME_BYTES:
        raise InvalidNameError(
            text, f"Invalid {kind} name: it has {size} bytes, at most {MAX_LOCAL_NAME_BYTES} are allowed"
        )
    if "\0" in text:
        raise InvalidNameError(text, f"Invalid {kind} name: it contains a NUL character")
    if text in RESERVED_PATH_SEGMENTS:
        raise InvalidNameError(
            text, f"Invalid {kind} name: . and .. mean folders in the path of a URL, choose another name"
        )


def encode_local_name(local_name: str) -> str:
    """Encode a local name for a URL as Java's `URLEncoder` does, in UTF-8: letters, digits and `.-*_` stay, a space
    becomes `+`.
    """
    return quote_plus(local_name, safe="*").replace("~", "%7E")


def decode_local_name(encoded: str) -> str:
    """Return the local name that `encode_local_name` encoded.

    Raises:
        InvalidNameError: the decoded bytes are not UTF-8 text.
    """
    try:
        return unquote_plus(encoded, errors="strict")
    except UnicodeDecodeError:
        raise InvalidNameError(encoded, "Invalid encoded topic name: decoded, it is not UTF-8 text") from None


def is_system_topic(topic: TopicName) -> bool:
    """Return whether brokers themselves use the topic (a system topic).

    Use of a system topic creates it even where the use of other topics does not create them. Lists of topics for users
    leave system topics out.
    """
    local_name = topic.partitioned_name.local_name
    if topic.namespace.tenant == "pulsar" and (
        str(topic.namespace) == "pulsar/system" or heartbeat_broker(topic.namespace) is not None
    ):
        return True
    return local_name in _SYSTEM_LOCAL_NAMES or local_name.endswith(_PENDING_ACK_SUFFIX)


def is_change_events(topic: TopicName) -> bool:
    """Return whether the topic is the one that stores the topic policies of a namespace, or a partition of that
    topic.
    """
    return topic.partitioned_name.local_name == CHANGE_EVENTS


def _partition_index(local_name: str) -> int:
    base, separator, digits = local_name.rpartition(_PARTITION)
    if not (separator and base.strip() and digits.isascii() and digits.isdecimal() and len(digits) <= 10):
        return -1
    if digits[0] == "0" and digits != "0":
        return -1
    index = int(digits)
    return index if index <= _MAX_PARTITION_INDEX else -1


def _full_name(text: str) -> str:
    if "://" in text:
        return text
    pieces = [piece for piece in text.split("/") if piece]
    if len(pieces) == 3:
        return f"{PERSISTENT}://{'/'.join(pieces)}"
    if len(pieces) == 1:
        return f"{PERSISTENT}://public/default/{pieces[0]}"
    raise InvalidNameError(text, "Invalid short topic name: it must have the form topic or tenant/namespace/topic")


@lru_cache(maxsize=_MEMOISED)
def _remembered(text: str) -> TopicName:
    return _parsed(text)


def _parsed(text: str) -> TopicName:
    if len(text) > _LONGEST_TEXT:
        raise InvalidNameError(
            text, f"Invalid topic name: it has {len(text)} characters, at most {_LONGEST_TEXT} are allowed"
        )
    scheme, _, rest = _full_name(text).partition("://")
    domain = scheme.lower()
    if domain in SCALABLE_DOMAINS:
        raise UnservedDomainError(text)
    if domain not in DOMAINS:
        raise InvalidNameError(text, "Invalid topic domain: it must be persistent or non-persistent")
    pieces = rest.split("/", 3)
    if len(pieces) < 3:
        raise InvalidNameError(text, "Invalid topic name: it must have the form domain://tenant/namespace/topic")
    if not pieces[-1].strip():
        raise InvalidNameError(text, "Invalid topic name: the part after the namespace is blank")
    return TopicName(domain, NamespaceName.parse("/".join(pieces[:-1])), pieces[-1])
