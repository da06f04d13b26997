"""The right to act: an exclusive producer on a topic of the cluster.

The broker of the topic admits one exclusive producer. It remembers the holder's epoch with the topic, so a holder whose
connection was lost cannot write any more once another one was admitted. That is proven by the cluster at every message,
and needs no clock in common. A dynamic-configuration key has neither: Pulsar sets one without a condition, and
tells all brokers of each renewal.

The holder renews the lease by a message with a note: what it has to put back in the cluster. A message that the broker
acknowledged proves the lease from the time at which it was sent. The next holder reads the last note.

Source: Pulsar's `ProducerAccessMode.Exclusive`, `AbstractTopic.incrementTopicEpochIfNeeded`.
"""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import msgspec

from pulsar_barycenter.bounds.json_text import decode_json
from pulsar_barycenter.operations.own_balancing import TakenOver

_SEND_TIMEOUT_MS: Final = 10_000
_READ_MS: Final = 3_000
_MAX_NOTE: Final = 1 << 16


class LeaseError(Exception):
    """The topic of the lease cannot be used; the text says what to do."""


class LeaseLostError(Exception):
    """Another process holds the lease now: this one must not change anything any more."""


class Note(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A message in the lease topic: the process that holds the lease, and the settings that it has to put back in the
    cluster (None: nothing).
    """

    holder: str
    taken_over: TakenOver | None = None


def read_note(content: bytes) -> Note | None:
    """Return the note in a message; None if the message is no note, because any client may write to the topic while no
    process holds the lease.
    """
    try:
        return decode_json(content[:_MAX_NOTE], Note)
    except msgspec.DecodeError:
        return None


class Lease:
    """A lease that lets one balancer at a time change the cluster: the process named `holder` holds it as the exclusive
    producer of `topic`. Each proof that it still holds the lease is valid for `valid_s` seconds.
    """

    def __init__(self, client: Callable[[], Any], topic: str, *, holder: str, valid_s: float) -> None:
        """Create a lease that is not held yet; `client` is a function that opens Pulsar's client, which the lease
        closes.
        """
        self._open = client
        self._topic = topic
        self._holder = holder
        self._valid_s = valid_s
        self._client: Any = None
        self._producer: Any = None
        self._proven_s = float("-inf")
        self._note = Note(holder=holder)

    @property
    def is_held(self) -> bool:
        """Whether it was proven within the last `valid_s` seconds that this process holds the lease."""
        return self._producer is not None and time.monotonic() - self._proven_s < self._valid_s

    async def try_to_take(self) -> tuple[bool, Note | None]:
        """Take the lease if no other process holds it. Return whether this process holds it now, and the note in the
        last message of the topic, which a former holder sent. The note is None if another process holds the lease, or
        there is no such note.

        Raises:
            LeaseError: the topic cannot be used.
            LeaseLostError: this process took the lease, but another one took it before this process could prove it.
        """
        return await asyncio.to_thread(self._take)

    async def renew(self, taken_over: TakenOver | None) -> None:
        """Prove that this process still holds the lease: send a message to the lease topic. The message contains
        `taken_over`, the settings to restore in the cluster.

        If the message gets no answer, no error is raised and nothing is proven: `is_held` becomes False `valid_s`
        seconds after the last proof.

        Raises:
            LeaseLostError: another process holds the lease.
        """
        await asyncio.to_thread(self._send, Note(holder=self._holder, taken_over=taken_over))

    async def close(self) -> None:
        """Release the lease, and close the client. Idempotent."""
        client, self._client, self._producer = self._client, None, None
        if client is not None:
            await asyncio.to_thread(_closed, client)

    def _take(self) -> tuple[bool, Note | None]:
        import pulsar  # only a process that may act needs it

        try:
            if self._client is None:
                self._client = self._open()
            producer = self._client.create_producer(
                self._topic,
                access_mode=pulsar.ProducerAccessMode.Exclusive,
                send_timeout_millis=_SEND_TIMEOUT_MS,
                batching_enabled=False,
            )
        except (pulsar.ProducerFenced, pulsar.ProducerBusy):
            return False, None
        except (pulsar.PulsarException, ValueError) as error:
            raise LeaseError(
                f"cannot take the lease on {self._topic}: {error}; check --service-url, and that the token may produce "
                "to and consume from this topic, or name another topic with --lease-topic"
            ) from error
        note = self._last_note()
        self._producer = producer
        self._send(note or self._note)  # a note of the former holder must not be lost before it is put back
        return True, note

    def _last_note(self) -> Note | None:
        """Return the note in the last message of the topic; None if there is none.

        Raises:
            LeaseError: the last message cannot be read. With the next message its note would be lost.
        """
        import pulsar

        try:
            reader = self._client.create_reader(self._topic, pulsar.MessageId.latest, start_message_id_inclusive=True)
            try:
                return read_note(reader.read_next(_READ_MS).data()) if reader.has_message_available() else None
            finally:
                reader.close()
        except pulsar.PulsarException as error:
            raise LeaseError(
                f"cannot read the last message of {self._topic}, which has the settings to restore in the cluster: "
                f"{error}; check that the token may consume from this topic, then start this command again"
            ) from error

    def _send(self, note: Note) -> None:
        import pulsar

        producer, began_s = self._producer, time.monotonic()
        if producer is None:
            raise LeaseLostError(
                f"this process does not hold the lease on {self._topic}, so this process must not change the cluster"
            )
        try:
            producer.send(msgspec.json.encode(note))
        except (pulsar.ProducerFenced, pulsar.ProducerBusy, pulsar.AlreadyClosed) as error:
            self._producer = None
            raise LeaseLostError(f"another process holds the lease on {self._topic}: {error}") from error
        except pulsar.PulsarException:
            return
        self._proven_s = began_s


def _closed(client: Any) -> None:
    import pulsar

    with suppress(pulsar.PulsarException):
        client.close()
