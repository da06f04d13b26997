"""What a put or a delete is to the server, and what its answer means. No clock, no I/O.

A write is one step of the server: its puts in their order, then its deletes, each under its own condition, that a key
has a certain version id. Oxia draws those ids from one count for all keys, so no id comes twice and one belongs to one
life of a key. What is told as a version is the record's count of modifications, which no condition can name; so a key
is looked at before it is replaced, and the id that was seen is the condition. If it does not hold, others were faster,
and what is there now decides.

**The session in each write.** Only a put that names a session is refused when that session has ended. So each write
begins with such a put: it takes the key for the session under the condition of the write and gives it an id that no
record has (MARK). The put or delete that counts follows in the same step, under the condition that the key has that
id. If the session has ended, or the condition does not hold, the first is refused, and with it the second; otherwise
both happen, and nobody ever sees what is in between. An ephemeral key that is written by its own session needs no such
put.

Whether a key is ephemeral is fixed at its creation: an update leaves it the session that it has.
"""

from dataclasses import dataclass
from typing import Final

from pulsar_barycenter.metadata.conditions import PutOptions
from pulsar_barycenter.metadata.oxia import oxia_api_pb2 as api
from pulsar_barycenter.metadata.oxia.layout import PARTITION, identity
from pulsar_barycenter.metadata.store import Record, Stat

MARK: Final = -2
"""The id of a key in the middle of a write; -1 is that of an absent one, others begin at 0."""
_ABSENT: Final = -1


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of a record besides its value."""

    version_id: int
    version: int
    """How often it was changed since it was created."""
    session: int | None
    """The session that it goes with, None if it lasts."""
    creator: str
    created_at_ms: int
    modified_at_ms: int

    def is_own(self, session: int | None) -> bool:
        """Whether `session` created it."""
        if session is None:
            return False
        return self.session == session if self.session is not None else self.creator == identity(session)

    def stat(self, path: str, reader: int | None) -> Stat:
        is_own = self.is_own(reader)
        return Stat(path, self.version, self.created_at_ms, self.modified_at_ms, self.session is not None, is_own)


class SessionEndedError(Exception):
    """The session has ended; nothing was written."""


class OtherVersionError(Exception):
    """The key is not as it was seen any more; nothing was written."""


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
    """Return what is known of the record that was asked for; None if there is none."""
    return known_of(answer.version) if answer.status == api.OK else None


def record_of(path: str, answer: api.GetResponse, reader: int | None) -> Record | None:
    known = found_in(answer)
    return None if known is None else Record(answer.value, known.stat(path, reader))


def put_request(key: str, value: bytes, options: PutOptions, session: int, seen: Known | None) -> api.WriteRequest:
    """Write `value` in the name of `session`, if the key is still as it was `seen`."""
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
    return api.WriteRequest(puts=[_taking(key, condition, session), put])


def delete_request(key: str, session: int, seen: Known) -> api.WriteRequest:
    """Delete the key in the name of `session`, if it is still as it was `seen`."""
    delete = api.DeleteRequest(key=key, expected_version_id=MARK, partition_key=PARTITION)
    return api.WriteRequest(puts=[_taking(key, seen.version_id, session)], deletes=[delete])


def written(answer: api.WriteResponse) -> Known:
    """Return what is known of the record that was put last, before it was deleted if it was.

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
    """Count up the number of sequential keys, which is kept at `key`."""
    return api.WriteRequest(puts=[api.PutRequest(key=key, partition_key=PARTITION)])


def session_request(key: str, session: int) -> api.WriteRequest:
    """Show a new session by a record of its own, with the id MARK, if the server can give it one."""
    return api.WriteRequest(puts=[_taking(key, _ABSENT, session)])


def heartbeat_request(key: str, session: int) -> api.WriteRequest:
    """Write that record anew, which takes a server that leads, and a session that lasts."""
    return api.WriteRequest(puts=[api.PutRequest(key=key, session_id=session, partition_key=PARTITION)])


def _put(key: str, value: bytes, condition: int) -> api.PutRequest:
    return api.PutRequest(key=key, value=value, expected_version_id=condition, partition_key=PARTITION)


def _taking(key: str, condition: int, session: int) -> api.PutRequest:
    put = _put(key, b"", condition)
    put.session_id = session
    put.override_version_id = MARK
    return put
