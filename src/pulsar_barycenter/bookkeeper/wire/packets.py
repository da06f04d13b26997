"""Encodes requests to a bookie, and decodes its answers.

    size u32 | version u8 (2), operation u8, flags u16 | …

Source: `org.apache.bookkeeper.proto.BookieProtocol` and `BookieProtoEncoding`.
"""

import struct
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum, IntFlag
from typing import Final, NamedTuple

from google.protobuf.message import DecodeError

from pulsar_barycenter.bookkeeper.errors import MalformedAnswerError
from pulsar_barycenter.bookkeeper.wire.bookie_opening_pb2 import AuthMessage
from pulsar_barycenter.bookkeeper.wire.digests import Body

DEFAULT_MAX_FRAME_BYTES: Final = 5_253_120
"""The maximum size of a packet (inclusive) that Pulsar's `bookkeeper.conf` sets as `nettyMaxFrameSizeBytes`."""
KEY_BYTES: Final = 20
ADD_HEAD_BYTES: Final = 4 + KEY_BYTES
"""The number of bytes of a request to add an entry that are not the entry."""

_SMALL_PART_BYTES: Final = 4096
_VERSION: Final = 2
_TAG_OF_VERSION_3: Final = 0x0A
"""The first byte of each packet of version 3, which is a protobuf message."""
_ADD: Final = struct.Struct(f">IBBH{KEY_BYTES}s")
_READ: Final = struct.Struct(">IBBHqq")
_BATCH_READ: Final = struct.Struct(">IBBHqqqiq")
_HEAD: Final = struct.Struct(">IBBH")
_SIZE: Final = struct.Struct(">I")
_WORD: Final = struct.Struct(">BBH")
_ANSWER: Final = struct.Struct(">iqq")
_REQUEST_ID: Final = struct.Struct(">q")
_ADD_ANSWER: Final = struct.Struct(">8siqq")
_ADD_ANSWER_HEAD: Final = struct.pack(">IBBH", _ADD_ANSWER.size - 4, _VERSION, 1, 0)
"""The first bytes of each answer to an add, before its code."""


class Operation(IntEnum):
    ADD = 1
    READ = 2
    AUTH = 3
    BATCH_READ = 7


class Flag(IntFlag):
    FENCING = 1
    RECOVERY_ADD = 2
    HIGH_PRIORITY = 4


PLAIN: Final = Flag(0)
RECOVERY_ADD: Final = Flag.RECOVERY_ADD | Flag.HIGH_PRIORITY
FENCING_READ: Final = Flag.FENCING | Flag.HIGH_PRIORITY


class Code(IntEnum):
    """The return codes of bookies. NO_ANSWER is ours: there was no answer, and the bookie may have carried out the
    request.
    """

    NO_ANSWER = -1
    OK = 0
    NO_LEDGER = 1
    NO_ENTRY = 2
    BAD_REQUEST = 100
    IO_ERROR = 101
    UNAUTHORIZED = 102
    BAD_VERSION = 103
    FENCED = 104
    READ_ONLY = 105
    TOO_MANY_REQUESTS = 106
    UNKNOWN_LEDGER_STATE = 107

    @classmethod
    def _missing_(cls, value: object) -> "Code":
        return cls.IO_ERROR


class AddAnswers(NamedTuple):
    """The same answer to the adds of one or more entries of a ledger, in the order in which they came. Codes that this
    client does not know count as IO_ERROR.
    """

    ledger: int
    code: Code
    entries: Sequence[int]


class Answer(NamedTuple):
    """An answer to a read. `body` is the entry that a read found, otherwise b"". Codes that this client does
    not know count as IO_ERROR. `request_id` is 0 except for a batch read, whose bodies are `bodies`.
    """

    operation: Operation
    code: Code
    ledger: int
    entry: int
    body: bytes = b""
    request_id: int = 0
    bodies: tuple[bytes, ...] = ()


class AuthAnswer(NamedTuple):
    """A message of the bookie's authentication plug-in."""

    plugin: str
    payload: bytes


def encode_add(key: bytes, body: Body, flags: Flag = PLAIN) -> bytes:
    """Return the request to store the entry `body`, which contains its ledger and number."""
    return b"".join(encode_adds(key, (body,), flags))


def encode_adds(key: bytes, bodies: Sequence[Body], flags: Flag = PLAIN) -> list[bytes]:
    """Return the requests to store the entries `bodies`, one after the other, as `encode_add` makes each. They are cut
    into parts, so that large entries are not copied.
    """
    pack, operation, bits = _ADD.pack, int(Operation.ADD), int(flags)
    parts: list[bytes] = []
    for head, data in bodies:
        parts.append(pack(ADD_HEAD_BYTES + len(head) + len(data), _VERSION, operation, bits, key) + head)
        parts.append(data)
    return joined_if_small(parts)


def joined_if_small(parts: list[bytes]) -> list[bytes]:
    """Return `parts`, joined to one part if they are small, because a copy costs less than to send each by itself."""
    return parts if sum(map(len, parts)) > _SMALL_PART_BYTES * len(parts) else [b"".join(parts)]


def encode_read(ledger: int, entry: int) -> bytes:
    """Return the request to read an entry; -1 is the last one that the bookie has."""
    return _READ.pack(_READ.size - 4, _VERSION, Operation.READ, 0, ledger, entry)


def encode_fencing_read(ledger: int, entry: int, key: bytes) -> bytes:
    """Return the request to fence a ledger and to read an entry (-1: the last one). A fenced ledger refuses ordinary
    adds.
    """
    return _READ.pack(_READ.size - 4 + KEY_BYTES, _VERSION, Operation.READ, FENCING_READ, ledger, entry) + key


def encode_batch_read(ledger: int, first: int, request_id: int, max_count: int, max_bytes: int) -> bytes:
    """Return the request to read entries from the entry `first` on, inclusive: at most `max_count` entries, and at most
    `max_bytes` bytes in total.
    """
    size = _BATCH_READ.size - 4
    return _BATCH_READ.pack(size, _VERSION, Operation.BATCH_READ, 0, ledger, first, request_id, max_count, max_bytes)


def encode_auth(plugin: str, payload: bytes) -> bytes:
    """Return a message to the bookie's authentication plug-in."""
    message = AuthMessage(authPluginName=plugin, payload=payload).SerializeToString()
    return _HEAD.pack(4 + len(message), _VERSION, Operation.AUTH, 0) + message


class AnswerDecoder:
    """Cuts the byte stream of one connection into answers.

    The size of an answer is checked as soon as it is known. So a bookie cannot make this program keep more than one
    answer of the maximum size plus the bytes of one read.
    """

    __slots__ = ("_buffered", "_chunks", "_max_frame_bytes", "_wanted")

    def __init__(self, max_frame_bytes: int = DEFAULT_MAX_FRAME_BYTES) -> None:
        """`max_frame_bytes` is the maximum (inclusive) that the size field of an answer may have."""
        self._max_frame_bytes = max_frame_bytes
        self._chunks: list[bytes] = []
        self._buffered = 0
        self._wanted = _SIZE.size

    @property
    def buffered(self) -> int:
        """The number of bytes of an incomplete answer that the decoder keeps."""
        return self._buffered

    def receive(self, data: bytes) -> list[Answer | AddAnswers | AuthAnswer]:
        """Process received bytes. Return the answers that are complete now, oldest first; store the bytes of an
        incomplete one until the next call. Consecutive answers to adds that have the same ledger and code are one
        `AddAnswers`.

        Raises:
            MalformedAnswerError: the bytes are not answers, or an answer is larger than the limit. The decoder cannot
                be used again.
        """
        self._chunks.append(data)
        self._buffered += len(data)
        if self._buffered < self._wanted:
            return []
        data = b"".join(self._chunks)
        answers: list[Answer | AddAnswers | AuthAnswer] = []
        offset, end = 0, len(data)
        self._wanted = _SIZE.size
        while end - offset >= _SIZE.size:
            if data.startswith(_ADD_ANSWER_HEAD, offset) and end - offset >= _ADD_ANSWER.size:
                offset += _take_add_answers(data, offset, answers)
                continue
            (size,) = _SIZE.unpack_from(data, offset)
            if size > self._max_frame_bytes:
                raise MalformedAnswerError(
                    f"a bookie announces an answer of {size:,} bytes, more than {self._max_frame_bytes:,}, the "
                    "limit nettyMaxFrameSizeBytes"
                )
            stop = offset + _SIZE.size + size
            if stop > end:
                self._wanted = stop - offset
                break
            answers.append(_decode(data, offset + _SIZE.size, stop))
            offset = stop
        self._chunks = [data[offset:]] if offset < end else []
        self._buffered = end - offset
        return answers


def _take_add_answers(data: bytes, offset: int, answers: list[Answer | AddAnswers | AuthAnswer]) -> int:
    """Append to `answers` the answers to adds that begin at `offset`, up to the first answer of another kind. Return
    their size in bytes.
    """
    taken, of_run, entries = 0, (-1, -1), list[int]()
    stop = offset + (len(data) - offset) // _ADD_ANSWER.size * _ADD_ANSWER.size
    for head, code, ledger, entry in _ADD_ANSWER.iter_unpack(memoryview(data)[offset:stop]):
        if head != _ADD_ANSWER_HEAD:
            break
        if (ledger, code) != of_run or not entries:
            of_run, entries = (ledger, code), []
            answers.append(AddAnswers(ledger, _code(code), entries))
        entries.append(entry)
        taken += _ADD_ANSWER.size
    return taken


def _decode(data: bytes, offset: int, stop: int) -> Answer | AddAnswers | AuthAnswer:
    try:
        version, operation, _ = _WORD.unpack_from(data[offset : offset + 4])
        if version == _TAG_OF_VERSION_3:
            raise MalformedAnswerError(
                "a bookie answers in version 3 of the protocol, probably because it refuses this client: see the log "
                "of the bookie"
            )
        if version != _VERSION:
            raise MalformedAnswerError(f"a bookie answers in version {version} of the protocol, expected {_VERSION}")
        return _BODIES[operation](data, offset + _WORD.size, stop)
    except KeyError:
        raise MalformedAnswerError(f"a bookie answers operation {operation}, which was not requested") from None
    except struct.error as error:
        raise MalformedAnswerError(f"a bookie sent an answer of {stop - offset} bytes, too short: {error}") from None
    except (DecodeError, UnicodeDecodeError) as error:
        raise MalformedAnswerError(f"a bookie sent an authentication message that cannot be read: {error}") from None


def _numbers(data: bytes, offset: int, stop: int) -> tuple[int, int, int]:
    rc, ledger, entry = _ANSWER.unpack(data[offset : min(offset + _ANSWER.size, stop)])
    return rc, ledger, entry


def _decode_add(data: bytes, offset: int, stop: int) -> AddAnswers:
    rc, ledger, entry = _numbers(data, offset, stop)
    return AddAnswers(ledger, _code(rc), [entry])


def _decode_read(data: bytes, offset: int, stop: int) -> Answer:
    rc, ledger, entry = _numbers(data, offset, stop)
    body = data[offset + _ANSWER.size : stop] if rc == Code.OK else b""
    return Answer(Operation.READ, _code(rc), ledger, entry, body)


def _decode_batch_read(data: bytes, offset: int, stop: int) -> Answer:
    rc, ledger, first = _numbers(data, offset, stop)
    offset += _ANSWER.size
    (request_id,) = _REQUEST_ID.unpack(data[offset : min(offset + _REQUEST_ID.size, stop)])
    bodies = tuple(_cut(data, offset + _REQUEST_ID.size, stop)) if rc == Code.OK else ()
    return Answer(Operation.BATCH_READ, _code(rc), ledger, first, b"", request_id, bodies)


def _cut(data: bytes, offset: int, stop: int) -> Sequence[bytes]:
    bodies = []
    while offset < stop:
        (size,) = _SIZE.unpack(data[offset : min(offset + _SIZE.size, stop)])
        offset += _SIZE.size
        if size > stop - offset:
            raise MalformedAnswerError(
                f"a bookie announces an entry of {size:,} bytes, but its answer has only {stop - offset:,} more bytes"
            )
        bodies.append(data[offset : offset + size])
        offset += size
    return bodies


def _decode_auth(data: bytes, offset: int, stop: int) -> AuthAnswer:
    message = AuthMessage.FromString(data[offset:stop])
    return AuthAnswer(message.authPluginName, message.payload)


def _code(rc: int) -> Code:
    return Code.IO_ERROR if rc == Code.NO_ANSWER else Code(rc)


_BODIES: Final[Mapping[int, Callable[[bytes, int, int], Answer | AddAnswers | AuthAnswer]]] = {
    int(Operation.ADD): _decode_add,
    int(Operation.READ): _decode_read,
    int(Operation.AUTH): _decode_auth,
    int(Operation.BATCH_READ): _decode_batch_read,
}
