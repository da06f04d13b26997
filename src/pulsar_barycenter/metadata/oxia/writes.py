"""Builds the request to Oxia for a put or a delete, and decodes its answer. No clock, no I/O.

A write is one step of the server: its puts in order, then its deletes, each under its own condition that a key has a
certain version id. Oxia takes these ids from one counter for all keys, so an id never repeats, even if a key is deleted
and created again. The version in a Stat is the record's modification count, which no condition can use. So a key is
read before it is replaced, and the condition is that it still has the id that was read. If not, another client changed
the key first, and the key is read again.

**The session in each write.** Oxia checks the session only in a put that names one: it refuses the put if that session
has ended. So each write begins with such a put. It assigns the key to the session, under the condition of the write,
and gives it an id that no record has (MARK). The actual put or delete follows in the same step, under the condition
that the key has that id. If the session has ended, or the condition fails, the first put is refused and so is the
second; otherwise both happen, and no client sees the state between them. An ephemeral key that its own session writes
needs no such put.

A key stays ephemeral or persistent: an update does not change its session.
"""

from dataclasses import dataclass
from typing import Final

from pulsar_barycenter.metadata.conditions import PutOptions
from pulsar_barycenter.metadata.oxia import oxia_api_pb2 as api
from pulsar_barycenter.metadata.oxia.layout import PARTITION, identity
from pulsar_barycenter.metadata.store import Record, Stat

MARK: Final = -2
"""The version id that a key has in the middle of a write. -1 is the id of an absent key; other ids start at 0."""
_ABSENT: Final = -1


@dataclass(frozen=True, slots=True)
class Known:
    """The state of a record in Oxia, as this client knows it, without the record's value."""

    version_id: int
    version: int
    """How often the record was changed since its creation."""
    session: int | None
    """The session at whose end Oxia deletes the record; None if the record is persistent."""
    creator: str
    created_at_ms: int
    modified_at_ms: int

    def is_own(self, session: int | None) -> bool:
        """Return whether `session` created the record."""
        if session is None:
            return False
        return self.session == session if self.session is not None else self.creator == identity(session)

    def stat(self, path: str, reader: int | None) -> Stat:
        is_own = self.is_own(reader)
        return Stat(path, self.version, self.created_at_ms, self.modified_at_ms, self.session is not None, is_own)


class SessionEndedError(Exception):
    """The session has ended; nothing was written."""


class OtherVersionError(Exception):
    """The key has changed since this client read it; nothing was written."""


def known_of(version: api.Version) -> Known:
    return Known(
        version.version_id,
        version.modifications_count,
        version.session_id if version.HasField("session_id") else None,
        version.client_identity,
        version.created_timestamp,
        version.modified_timestamp,
    )


def found_in(answer: api.GetResponse) -> Known | None:
    """Return the state of the record that a read request has found; None if the record does not exist. `answer` is
    Oxia's answer.
    """
    return known_of(answer.version) if answer.status == api.OK else None


def record_of(path: str, answer: api.GetResponse, reader: int | None) -> Record | None:
    known = found_in(answer)
    return None if known is None else Record(answer.value, known.stat(path, reader))


def put_request(key: str, value: bytes, options: PutOptions, session: int, seen: Known | None) -> api.WriteRequest:
    """Return the request that writes `value` to `key`, in the session `session`. The server executes it only if the
    record still has the state `seen` (None: does not exist), and the session has not ended.
    """
    if seen is None:
        creator, version = identity(session), 0
        owner = session if options.ephemeral else None
    else:
        creator, version, owner = seen.creator, seen.version + 1, seen.session
    condition = _ABSENT if seen is None else seen.version_id
    put = _put(key, value, condition)
    put.client_identity = creator
    if owner is not None:
        put.session_id = owner
    if owner == session:
        return api.WriteRequest(puts=[put])
    put.expected_version_id = MARK
    put.override_modifications_count = version
    return api.WriteRequest(puts=[_put_under_session(key, condition, session), put])


def delete_request(key: str, session: int, seen: Known) -> api.WriteRequest:
    """Return the request that deletes `key`, in the session `session`. The server executes it only if the record still
    has the state `seen`, and the session has not ended.
    """
    delete = api.DeleteRequest(key=key, expected_version_id=MARK, partition_key=PARTITION)
    return api.WriteRequest(puts=[_put_under_session(key, seen.version_id, session)], deletes=[delete])


def written(answer: api.WriteResponse) -> Known:
    """Return the state of the record that the last put of a write request wrote. `answer` is Oxia's answer to the
    request.

    Raises:
        SessionEndedError, OtherVersionError: nothing was written.
    """
    status = answer.puts[0].status
    if status == api.SESSION_DOES_NOT_EXIST:
        raise SessionEndedError
    if status != api.OK:
        raise OtherVersionError
    return known_of(answer.puts[-1].version)


def number_request(key: str) -> api.WriteRequest:
    """Return the request that gets the next number for sequential keys. The number is the modification count of the
    record `key`, which the request writes.
    """
    return api.WriteRequest(puts=[api.PutRequest(key=key, partition_key=PARTITION)])


def session_request(key: str, session: int) -> api.WriteRequest:
    """Return the request that creates the record `key` of a new session. Oxia deletes it when the session ends. A
    server that supports version ids chosen by clients gives it the version id MARK.
    """
    return api.WriteRequest(puts=[_put_under_session(key, _ABSENT, session)])


def heartbeat_request(key: str, session: int) -> api.WriteRequest:
    """Return the request that writes the record `key` of a session again. The server executes it only if it leads the
    shard and the session has not ended.
    """
    return api.WriteRequest(puts=[api.PutRequest(key=key, session_id=session, partition_key=PARTITION)])


def _put(key: str, value: bytes, condition: int) -> api.PutRequest:
    return api.PutRequest(key=key, value=value, expected_version_id=condition, partition_key=PARTITION)


def _put_under_session(key: str, condition: int, session: int) -> api.PutRequest:
    put = _put(key, b"", condition)
    put.session_id = session
    put.override_version_id = MARK
    return put
