"""Converts SENDs to the form that topics accept, and checks their entries."""

from collections.abc import Sequence
from itertools import repeat
from typing import Final, NamedTuple

from pulsar_barycenter.broker.clients.consumer import MAX_MESSAGES_IN_ENTRY
from pulsar_barycenter.broker.clients.producer import Producer, Sent
from pulsar_barycenter.broker.errors import NO_TRANSACTIONS
from pulsar_barycenter.broker.wire.errors import ErrorCode, error_text
from pulsar_barycenter.broker.wire.refusals import miscounted
from pulsar_barycenter.ledger.position import NewEntry
from pulsar_barycenter.protocol import pulsar_api_pb2 as api
from pulsar_barycenter.protocol.connection_state import Received
from pulsar_barycenter.protocol.errors import ChecksumMismatchError, MalformedFrameError
from pulsar_barycenter.protocol.frames import check_entry
from pulsar_barycenter.protocol.send_runs import SendRun

SEND: Final = int(api.BaseCommand.SEND)


class Sends(NamedTuple):
    """Consecutive SENDs of one producer; `size` is the sum of the sizes of their entries, in bytes."""

    sent: list[Sent]
    entries: list[NewEntry]
    size: int


class Refused(NamedTuple):
    """A SEND that the broker refuses: its entry is damaged, its message count is wrong, or it belongs to a transaction.

    `code` is the error that the client gets. After NotAllowedError, clients do not send the message again; after
    ChecksumError, they send it again only if their own copy is not damaged.
    """

    sequence_id: int
    code: ErrorCode
    reason: str


def of_run(producer: Producer, run: SendRun) -> Sends:
    """Return the SENDs of a run (see `SendRun`), whose entries the protocol package has checked already. Each entry has
    one message.
    """
    sizes = list(map(len, run.entries))
    sent = list(zip(repeat(producer), run.sequence_ids, repeat(0), repeat(1), sizes, run.delivery_times_ms))
    return Sends(sent, list(zip(run.entries, repeat(1), run.publish_times_ms)), sum(sizes))


def following(producer: Producer, received: Sequence[Received], start: int) -> tuple[Sends, Refused | None, int]:
    """Collect the consecutive valid SENDs of one producer, beginning at index `start` of `received`. They end before a
    command of another type, a SEND of another producer, or a SEND that is refused; and they are either all chunks or
    all not.

    Return these SENDs, the refused SEND if one ended the series (else None), and the index of the first command that is
    not in the result.
    """
    producer_id, are_chunks = received[start][1][0], received[start][1][4]
    sent: list[Sent] = []
    entries: list[NewEntry] = []
    size = 0
    for index in range(start, len(received)):
        number, send, entry = received[index]
        if number != SEND:
            return Sends(sent, entries, size), None, index
        sender, sequence_id, highest_id, messages, is_chunk, in_transaction = send
        if sender != producer_id or is_chunk != are_chunks:
            return Sends(sent, entries, size), None, index
        if in_transaction:
            refused = Refused(sequence_id, api.NotAllowedError, NO_TRANSACTIONS)
            return Sends(sent, entries, size), refused, index + 1
        try:
            published_ms, counted, delivery_ms = check_entry(entry)
            if messages != counted or (messages != 1 and not 0 < messages <= MAX_MESSAGES_IN_ENTRY):
                raise MalformedFrameError(miscounted(messages, counted))
        except (ChecksumMismatchError, MalformedFrameError) as error:
            return Sends(sent, entries, size), Refused(sequence_id, api.ChecksumError, error_text(error)), index + 1
        entries.append((entry, messages, published_ms))
        sent.append((producer, sequence_id, highest_id, messages, len(entry), delivery_ms))
        size += len(entry)
    return Sends(sent, entries, size), None, len(received)
