"""Writes as requests, compared with a model of the server: all of a request or nothing, for valid sessions only."""

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_barycenter.metadata.conditions import PutOptions
from pulsar_barycenter.metadata.oxia import oxia_api_pb2 as api
from pulsar_barycenter.metadata.oxia.layout import PARTITION, identity
from pulsar_barycenter.metadata.oxia.writes import (
    MARK,
    Known,
    OtherVersionError,
    SessionEndedError,
    delete_request,
    put_request,
    written,
)

KEY = "|key"


@dataclass
class Server:
    """One key as Oxia stores it: each operation in order, under its own condition, the version first."""

    sessions: frozenset[int]
    record: Known | None = None
    value: bytes = b""
    last_id: int = 0
    told: list[str] = field(default_factory=list)

    def write(self, request: api.WriteRequest) -> api.WriteResponse:
        return api.WriteResponse(
            puts=[self._put(each) for each in request.puts], deletes=[self._delete(each) for each in request.deletes]
        )

    def _put(self, put: api.PutRequest) -> api.PutResponse:
        assert (put.key, put.partition_key) == (KEY, PARTITION)
        if put.expected_version_id != (-1 if self.record is None else self.record.version_id):
            return api.PutResponse(status=api.UNEXPECTED_VERSION_ID)
        if put.HasField("session_id") and put.session_id not in self.sessions:
            return api.PutResponse(status=api.SESSION_DOES_NOT_EXIST)
        if put.HasField("override_version_id"):
            version_id = put.override_version_id
        else:
            self.last_id += 1
            version_id = self.last_id
        count = 0 if self.record is None else self.record.version + 1
        if put.HasField("override_modifications_count"):
            count = put.override_modifications_count
        session = put.session_id if put.HasField("session_id") else None
        self.record, self.value = Known(version_id, count, session, put.client_identity, 1, 2), put.value
        return api.PutResponse(
            version=api.Version(
                version_id=version_id,
                modifications_count=count,
                created_timestamp=1,
                modified_timestamp=2,
                session_id=session,
                client_identity=put.client_identity,
            )
        )

    def _delete(self, delete: api.DeleteRequest) -> api.DeleteResponse:
        if self.record is None or self.record.version_id != delete.expected_version_id:
            return api.DeleteResponse(status=api.UNEXPECTED_VERSION_ID)
        self.record = None
        return api.DeleteResponse()


ABSENT = st.none()
LASTING = st.builds(Known, st.integers(1, 9), st.integers(0, 5), ABSENT, st.just(identity(7)), st.just(1), st.just(2))
EPHEMERAL = st.builds(
    Known, st.integers(1, 9), st.integers(0, 5), st.sampled_from([7, 8]), st.just(identity(7)), st.just(1), st.just(2)
)


@given(ABSENT | LASTING | EPHEMERAL, ABSENT | LASTING | EPHEMERAL, st.booleans(), st.booleans(), st.booleans())
def test_a_write_happens_as_a_whole_or_not_at_all(there, seen, ephemeral, is_alive, deletes):
    """It happens if the session is alive and the key is as it was seen; a record never keeps a mark."""
    others = frozenset({8, *([7] if is_alive or (there is not None and there.session == 7) else [])})
    is_alive = 7 in others
    server = Server(others, there, b"before", last_id=9)
    if deletes and seen is not None:
        request = delete_request(KEY, 7, seen)
    else:
        deletes = False
        request = put_request(KEY, b"value", PutOptions(ephemeral=ephemeral), 7, seen)
    is_as_seen = (there and there.version_id) == (seen and seen.version_id)
    if there is not None and is_as_seen:
        seen = there  # an id belongs to one life and state of a key
        request = delete_request(KEY, 7, seen) if deletes else put_request(KEY, b"value", PutOptions(), 7, seen)
    answer = server.write(request)
    if not (is_alive and is_as_seen):
        with pytest.raises((SessionEndedError, OtherVersionError)) as refused:
            written(answer)
        assert is_as_seen == (refused.type is SessionEndedError)
        assert (server.record, server.value) == (there, b"before")
        return
    told = written(answer)
    if deletes:
        assert server.record is None
        return
    assert server.record == told
    assert (server.value, told.version_id) == (b"value", server.last_id)
    assert told.version_id != MARK
    if there is None:
        assert (told.version, told.session) == (0, 7 if ephemeral else None)
        assert told.is_own(7)
        assert not told.is_own(8)
    else:
        assert told == replace(there, version_id=told.version_id, version=there.version + 1)


def test_nobody_without_a_session_has_made_a_key():
    lasting = Known(1, 0, None, identity(7), 1, 2)
    assert lasting.is_own(7)
    assert not lasting.is_own(None)
    assert not Known(1, 0, None, "", 1, 2).is_own(7), "somebody else's, by other means"
    stat = Known(1, 3, 8, identity(8), 10, 20).stat("/key", 7)
    assert (stat.version, stat.created_at_ms, stat.modified_at_ms) == (3, 10, 20)
    assert (stat.ephemeral, stat.created_by_self) == (True, False)
