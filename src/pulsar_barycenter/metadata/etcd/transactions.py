"""Builds the request to etcd for a put or a delete, and decodes its answer. No clock, no I/O.

Every write is one transaction. Its first condition is that the key of the writing session exists. That key is attached
to the session's lease, so it is deleted in the same revision as the session's ephemeral keys. A client that does not
know yet that its session has ended therefore writes nothing. A nested transaction checks the conditions of the write.
If they are not met, the server returns the current state of the key, from the same revision. A guard (another key that
must have a certain version) is a condition next to the session's; if one of the two is not met, the server returns both
keys.

A key stays ephemeral or persistent: an update does not change its lease.
"""

from dataclasses import dataclass

from pulsar_barycenter.metadata.conditions import PutOptions, check_delete, check_guard, check_put
from pulsar_barycenter.metadata.errors import BadVersionError
from pulsar_barycenter.metadata.etcd import etcd_api_pb2 as api
from pulsar_barycenter.metadata.etcd.layout import Layout
from pulsar_barycenter.metadata.store import MUST_NOT_EXIST, Guard, Record, Stat


@dataclass(frozen=True, slots=True)
class Writer:
    """The session that writes a key. `lease` is its lease in etcd. `created` is the revision in which this session
    created the key, if it is persistent.
    """

    lease: int
    created: int | None = None
    """The revision in which this session created the key; None if it did not, or if the key is ephemeral."""

    def owns(self, kv: api.KeyValue) -> bool:
        return kv.lease == self.lease if self.created is None else kv.create_revision == self.created

    def ownership(self, key: bytes) -> api.Compare:
        """Return, for a transaction in etcd, the condition that this session created the key. A key that does not exist
        does not meet it.
        """
        if self.created is None:
            return api.Compare(key=key, target=api.Compare.LEASE, lease=self.lease)
        return api.Compare(key=key, target=api.Compare.CREATE, create_revision=self.created)


@dataclass(frozen=True, slots=True)
class Written:
    """The result of a put: the stat of the key, and the revision in which the key was created."""

    stat: Stat
    created: int
    """The revision in which the key was created."""


def record_of(path: str, kv: api.KeyValue, reader: Writer) -> Record:
    return Record(kv.value, _stat(path, kv, reader))


def put_request(layout: Layout, path: str, value: bytes, options: PutOptions, writer: Writer) -> api.TxnRequest:
    key = layout.key(path)
    create = api.PutRequest(key=key, value=value, lease=writer.lease if options.ephemeral else 0)
    replace = api.PutRequest(key=key, value=value, ignore_lease=True)
    created = [api.RequestOp(request_put=create), _read_key(key)]
    replaced = [api.RequestOp(request_put=replace), _read_key(key)]
    refused = [_read_key(key)]
    own = [writer.ownership(key)] if options.if_own else []
    expected = options.expected_version
    if expected == MUST_NOT_EXIST:
        inner = api.TxnRequest(compare=[_absent(key)], success=created, failure=refused)
    elif expected is not None:
        inner = api.TxnRequest(compare=[_has_version(key, expected), *own], success=replaced, failure=refused)
    elif own:
        if_there = api.TxnRequest(compare=own, success=replaced, failure=refused)
        inner = api.TxnRequest(compare=[_absent(key)], success=created, failure=[_nested(if_there)])
    else:
        inner = api.TxnRequest(compare=[_absent(key)], success=created, failure=replaced)
    return _of_session(layout, writer, [_nested(inner)], options.guard)


def put_outcome(path: str, answer: api.TxnResponse, options: PutOptions, writer: Writer) -> Written | None:
    """Return the result of a put, from etcd's answer; None if nothing was written because the session has ended.

    Raises:
        GuardError: the guard's key has another version; nothing was written.
        BadVersionError: the key does not have the expected version; nothing was written.
        OtherSessionError: the key has to be one that this session created, and is not; nothing was written.
    """
    if not answer.succeeded:
        _check_guard(answer, options.guard)
        return None
    *writes, found = _innermost(answer)
    kv = _found(found)
    if writes:
        assert kv is not None
        stat = _stat(path, kv, writer)
        if kv.version == 1:  # no other session created it
            stat = Stat(path, 0, 0, 0, stat.ephemeral, True)
        return Written(stat, kv.create_revision)
    check_put(path, _version(kv), options, own=kv is not None and writer.owns(kv))
    raise BadVersionError(path, options.expected_version, _version(kv))


def delete_request(
    layout: Layout, path: str, writer: Writer, *, expected_version: int | None, if_own: bool, guard: Guard | None
) -> api.TxnRequest:
    key, (first, end) = layout.key(path), layout.below(path)
    conditions = [
        api.Compare(key=key, target=api.Compare.CREATE, result=api.Compare.GREATER, create_revision=0),
        # of every key it is greater
        api.Compare(key=first, range_end=end, target=api.Compare.CREATE, create_revision=0),
    ]
    if expected_version is not None:
        conditions.append(_has_version(key, expected_version))
    if if_own:
        conditions.append(writer.ownership(key))
    delete = api.RequestOp(request_delete_range=api.DeleteRangeRequest(key=key))
    child = api.RequestOp(request_range=api.RangeRequest(key=first, range_end=end, limit=1, keys_only=True))
    inner = api.TxnRequest(compare=conditions, success=[delete], failure=[_read_key(key), child])
    return _of_session(layout, writer, [_nested(inner)], guard)


def delete_outcome(
    path: str,
    answer: api.TxnResponse,
    writer: Writer,
    *,
    expected_version: int | None,
    if_own: bool,
    guard: Guard | None,
) -> bool:
    """Return the result of a deletion, from etcd's answer: True if the key was deleted, False if it was not, because
    the session has ended.

    Raises:
        GuardError: the guard's key has another version.
        NotFoundError: the key does not exist.
        BadVersionError: the key has another version.
        OtherSessionError: `if_own` is True, and another session created the key.
        HasChildrenError: there are keys below `path`.
    """
    if not answer.succeeded:
        _check_guard(answer, guard)
        return False
    inner = _innermost(answer)
    if inner[0].HasField("response_delete_range"):
        return True
    kv = _found(inner[0])
    check_delete(
        path,
        _version(kv),
        expected=expected_version,
        if_own=if_own,
        own=kv is not None and writer.owns(kv),
        has_children=bool(inner[1].response_range.kvs),
    )
    raise BadVersionError(path, expected_version, _version(kv))


def number_request(layout: Layout, path: str, writer: Writer) -> api.TxnRequest:
    """Return the request that gets the next number for a sequential key whose name begins with `path`."""
    key = layout.sequence(path)
    return _of_session(layout, writer, [api.RequestOp(request_put=api.PutRequest(key=key)), _read_key(key)])


def number_outcome(answer: api.TxnResponse) -> int | None:
    """Return the number in etcd's answer to `number_request`. It is larger than every number given before. None if
    there is none, because the session has ended.
    """
    return answer.responses[1].response_range.kvs[0].version if answer.succeeded else None


def session_request(layout: Layout, lease: int) -> api.TxnRequest:
    """Return the request that creates the key of a new session. The key is attached to the session's lease `lease`, so
    it exists as long as the lease.
    """
    put = api.PutRequest(key=layout.session(lease), lease=lease)
    return api.TxnRequest(success=[api.RequestOp(request_put=put)])


def _of_session(
    layout: Layout, writer: Writer, steps: list[api.RequestOp], guard: Guard | None = None
) -> api.TxnRequest:
    session = layout.session(writer.lease)
    is_there = api.Compare(key=session, target=api.Compare.LEASE, lease=writer.lease)
    if guard is None:
        return api.TxnRequest(compare=[is_there], success=steps)
    guarding = layout.key(guard.path)
    holds = _has_version(guarding, guard.version)
    return api.TxnRequest(compare=[is_there, holds], success=steps, failure=[_read_key(session), _read_key(guarding)])


def _check_guard(answer: api.TxnResponse, guard: Guard | None) -> None:
    """Called when etcd has refused a write. Return if it refused the write because the session has ended.

    Raises:
        GuardError: etcd refused the write because the key of `guard` does not have the version in `guard`.
    """
    if guard is not None:
        session, guarding = map(_found, answer.responses)
        if session is not None:
            check_guard(guard, _version(guarding))


def _nested(inner: api.TxnRequest) -> api.RequestOp:
    return api.RequestOp(request_txn=inner)


def _read_key(key: bytes) -> api.RequestOp:
    return api.RequestOp(request_range=api.RangeRequest(key=key, keys_only=True))


def _absent(key: bytes) -> api.Compare:
    return api.Compare(key=key, target=api.Compare.CREATE, create_revision=0)


def _has_version(key: bytes, version: int) -> api.Compare:
    """Return, for a transaction in etcd, the condition that a key has `version`, counted from 0 as in a Stat. A key
    that does not exist does not meet it.
    """
    return api.Compare(key=key, target=api.Compare.VERSION, version=version + 1)


def _innermost(answer: api.TxnResponse) -> list[api.ResponseOp]:
    while len(answer.responses) == 1 and answer.responses[0].HasField("response_txn"):
        answer = answer.responses[0].response_txn
    return list(answer.responses)


def _found(answer: api.ResponseOp) -> api.KeyValue | None:
    kvs = answer.response_range.kvs
    return kvs[0] if kvs else None


def _version(kv: api.KeyValue | None) -> int | None:
    return None if kv is None else kv.version - 1


def _stat(path: str, kv: api.KeyValue, reader: Writer) -> Stat:
    return Stat(path, kv.version - 1, 0, 0, kv.lease != 0, reader.owns(kv))  # etcd stores no times
