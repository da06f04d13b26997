"""The records that the leader stores: one for each session, and the secret that requests to the leader must contain."""

import hmac
from collections.abc import Callable
from typing import Final

import msgspec

from pulsar_barycenter.metadata.codec import JsonCodec
from pulsar_barycenter.metadata.errors import BadVersionError, GuardError
from pulsar_barycenter.metadata.leader_writes.write_requests import LeaseMs
from pulsar_barycenter.metadata.store import MUST_NOT_EXIST, Guard, MetadataStore, Record

LEASED_ROOT: Final = "/loadbalance/leased"
SESSIONS_ROOT: Final = f"{LEASED_ROOT}/sessions"
SECRET_PATH: Final = f"{LEASED_ROOT}/secret"


class SessionRecord(msgspec.Struct, frozen=True, rename="camel"):
    """The record in the store of a broker's session with the leader. If `is_marked` is True, the leader has ended the
    session, and the broker stops using it within `lease_ms`.

    Brokers may have different lease times. If `lease_ms` is 0, the broker did not send its lease time when it opened
    the session, and the leader's lease time is used.
    """

    broker_id: str = ""
    is_marked: bool = False
    lease_ms: LeaseMs = 0


class _Secret(msgspec.Struct, frozen=True, rename="camel"):
    secret: str


_SESSION: Final = JsonCodec(SessionRecord)
_SECRET: Final = JsonCodec(_Secret)


def session_path(session: str) -> str:
    return f"{SESSIONS_ROOT}/{session}"


def session_value(record: SessionRecord) -> bytes:
    return _SESSION.encode(record)


def session_of(record: Record) -> SessionRecord:
    """Decode `record`, the stored record of a session.

    Raises:
        InvalidValueError: its value is not a session record.
    """
    return _SESSION.decode(record.stat.path, record.value)


async def read_secret(store: MetadataStore) -> str | None:
    """Return the secret that requests to the leader must contain; None if no leader has created it yet.

    Raises:
        InvalidValueError: the stored value is not a secret.
    """
    record = await store.get(SECRET_PATH)
    return None if record is None else _SECRET.decode(SECRET_PATH, record.value).secret


async def get_or_create_secret(store: MetadataStore, guard: Guard, draw: Callable[[], str]) -> str:
    """Return the secret that requests to the leader must contain. If none is stored yet, store the result of `draw` as
    the secret. `guard` is the condition of this write: that no other leader has a later epoch.

    Raises:
        GuardError: another leader has a later epoch.
        InvalidValueError, StoreUnavailableError: the secret cannot be read or stored.
    """
    while True:
        known = await read_secret(store)
        if known is not None:
            return known
        value = _SECRET.encode(_Secret(draw()))
        try:
            await store.put(SECRET_PATH, value, expected_version=MUST_NOT_EXIST, guard=guard)
        except GuardError:
            raise
        except BadVersionError:
            continue  # an operator was faster


def same_secret(one: str, other: str) -> bool:
    """Return whether two secrets are equal. The time that this takes does not show how many characters are equal, so
    that the secret cannot be guessed by measuring it.
    """
    return hmac.compare_digest(one.encode(errors="surrogateescape"), other.encode(errors="surrogateescape"))
