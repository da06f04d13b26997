"""Leader election on one path of the metadata store: the session that creates the ephemeral key leads.

| event                                     | what a candidate does                                           |
|-------------------------------------------|-----------------------------------------------------------------|
| key deleted while a leader was known      | NO_LEADER, then elects again with the same proposal; listeners  |
|                                           | are notified of NO_LEADER only if that fails                    |
| key created or changed by another session | reads the key                                                   |
| RECONNECTED, SESSION_REESTABLISHED        | reads the key: a leader whose key exists stays leader, unnotified |
| the store does not answer                 | tries again every 2.5 to 5 s until closed                       |
| every `recheck_s`                         | reads the key, in case a notification was lost unnoticed        |
| another session's key has a new creation  | as if a deletion in between had been notified                   |

A lost connection does not change the state: a former leader stays leader until the store answers again. So a leader has
to prove, at the target of its action, that it still leads.

Source: Pulsar's `LeaderElectionImpl`. One difference: if this session's key has another value than the proposal, the
value is overwritten without deleting the key, so that leadership does not change.
"""

import asyncio
import enum
import operator
import random
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final, Generic, TypeVar

import structlog

from pulsar_barycenter.bounds.back_off import BackOff
from pulsar_barycenter.metadata.codec import Codec, JsonCodec
from pulsar_barycenter.metadata.errors import (
    BadVersionError,
    InvalidValueError,
    MetadataError,
    NotFoundError,
    SessionLostError,
    StoreClosedError,
)
from pulsar_barycenter.metadata.store import (
    CONNECTED_EVENTS,
    MUST_NOT_EXIST,
    MetadataStore,
    Notification,
    NotificationType,
    Record,
    SessionEvent,
)

log = structlog.get_logger(__name__)

T = TypeVar("T")

RETRY_S = 5.0


class LeaderElectionState(enum.Enum):
    LEADING = "leading"
    FOLLOWING = "following"
    NO_LEADER = "no_leader"


class KeyFinding(enum.Enum):
    """What a candidate found out about the leader's key when it read the key."""

    OWN = "own"
    """The key belongs to this candidate's session."""
    OTHERS = "others"
    """The key belongs to another session."""
    DELETED = "deleted"
    """The key does not exist."""
    LEFT = "left"
    """This candidate has left the election, so the key does not matter."""


STATE_AFTER: Final[Mapping[KeyFinding, LeaderElectionState]] = {
    KeyFinding.OWN: LeaderElectionState.LEADING,
    KeyFinding.OTHERS: LeaderElectionState.FOLLOWING,
    KeyFinding.DELETED: LeaderElectionState.NO_LEADER,
    KeyFinding.LEFT: LeaderElectionState.NO_LEADER,
}
"""The state of a candidate after each finding, whatever its state was before. Only the key decides, not the
connection.
"""


class LeaderElection(Generic[T]):
    """One candidate in the election of a leader. `on_state` is called on the event loop with the state of this
    candidate (leading, following, or no leader) each time the state or the leader has changed, and also when the same
    broker leads again after its key was deleted.

    `proposal` is the value that this candidate writes to the leader's key when it leads. If the key was created by
    another session, `same_owner` (default: equality) compares its value with `proposal`; True means that an earlier
    session of this candidate left the key, and the candidate replaces it. Close the election before the store.
    """

    def __init__(
        self,
        store: MetadataStore,
        path: str,
        value_type: type[T],
        proposal: T,
        on_state: Callable[[LeaderElectionState], None] | None = None,
        *,
        same_owner: Callable[[T, T], bool] = operator.eq,
        codec: Codec[T] | None = None,
        recheck_s: float = 5.0,
        source: random.Random | None = None,
    ) -> None:
        """`recheck_s` is the number of seconds after which the leader's key is read again, even without a notification.
        `source` generates the random delays between attempts; the default is the system's randomness.
        """
        self.path = path
        self._store = store
        self._proposal = proposal
        self._on_state = on_state
        self._same_owner = same_owner
        self._codec: Codec[T] = codec or JsonCodec(value_type)
        self._recheck_s = recheck_s
        self._back_off = BackOff(source or random.Random(), RETRY_S, RETRY_S)
        self._state = LeaderElectionState.NO_LEADER
        self._leader: T | None = None
        self._reported: tuple[LeaderElectionState, T | None] = (self._state, None)
        self._was_deleted = False
        """Whether the key was deleted since the last call of `on_state`."""
        self._creation: tuple[int, int] | None = None
        """Creation time (ms) and version of the other session's key that was read last."""
        self._serial = asyncio.Lock()
        self._is_open = False
        self._only_observes = False
        self._is_due = asyncio.Event()
        self._keeper: asyncio.Task[None] | None = None
        self._stops: tuple[Callable[[], None], ...] = ()

    @property
    def state(self) -> LeaderElectionState:
        return self._state

    def leader_if_known(self) -> T | None:
        """Return the value of the leader's key, as it was read last; None if there is no leader or it is unknown. Never
        waits for the store.
        """
        return self._leader

    async def elect(self, proposal: T | None = None) -> LeaderElectionState:
        """Take part in the election from now on, and return the state of this candidate: whether it leads or follows.
        `proposal`, if given, replaces the proposal of this candidate.

        Raises:
            MetadataError: the store did not answer. The candidate takes part nevertheless, and tries again in the
                background.
            StoreClosedError: this election was closed during the call.
        """
        if proposal is not None:
            self._proposal = proposal
        if not self._is_open:
            self._is_open = True
            self._stops = (
                self._store.add_listener(self._notified),
                self._store.add_session_listener(self._session_event),
            )
            self._keeper = asyncio.create_task(self._keep(), name=f"leader election {self.path}")
        elif self._state is not LeaderElectionState.NO_LEADER:
            return self._state
        try:
            return await self._look()
        except StoreClosedError:
            raise
        except MetadataError:
            self._is_due.set()
            raise

    def decline(self) -> None:
        """Do not become leader from now on; only observe which candidate leads. If this candidate leads at the time of
        the call, it still leads until `close`.
        """
        self._only_observes = True

    def take_part(self) -> None:
        """Take part in the election again, after `decline`. Idempotent."""
        if self._only_observes:
            self._only_observes = False
            self._is_due.set()

    async def close(self) -> None:
        """Leave the election. If this session has created the leader's key, the key is deleted. If the store does not
        answer, the key stays until the session ends. Idempotent.

        After this, `elect` can be called to take part again.
        """
        if not self._is_open:
            return
        self._is_open = False
        for stop in self._stops:
            stop()
        self._is_due.set()
        if self._keeper is not None:
            await asyncio.wait([self._keeper])  # not cancelled, because a put that is running must be completed
        async with self._serial:
            self._found(KeyFinding.LEFT, None)
            self._reported = (self._state, self._leader)
            await self._resign()

    # ---- the election ----

    async def _look(self) -> LeaderElectionState:
        """Read the leader's key, and return the state of this candidate that follows from it. If the key does not
        exist, create it: then this candidate leads. After `decline`, the key is not created.
        """
        async with self._serial:
            while True:
                self._check_open()
                with suppress(BadVersionError, NotFoundError):  # another session was faster: read the key again
                    return await self._look_once()

    async def _look_once(self) -> LeaderElectionState:
        record = await self._store.get(self.path)
        self._record_creation(record)
        if record is None:
            return self._became(KeyFinding.DELETED, None) if self._only_observes else await self._lead()
        stored = self._decode(record)
        version = record.stat.version
        if record.stat.created_by_self:
            if stored != self._proposal:
                data = self._codec.encode(self._proposal)
                await self._store.put(self.path, data, expected_version=version, ephemeral=True, if_own=True)
            return self._became(KeyFinding.OWN, self._proposal)
        if not self._only_observes and stored is not None and self._same_owner(stored, self._proposal):
            # A key of an earlier session of this candidate, which is about to expire.
            await self._store.delete(self.path, expected_version=version)
            return await self._lead()
        return self._became(KeyFinding.OTHERS, stored)

    def _record_creation(self, record: Record | None) -> None:
        """`record` is the leader's key as it was read. If another session created it, keep the time of its creation. If
        this time differs from the time kept at the last read, record that the key was deleted in between.

        The creation time is compared because value and version may be the same: a leader that restarts creates the same
        key again.
        """
        before, self._creation = self._creation, None
        if record is None or record.stat.created_by_self:
            return
        self._creation = (record.stat.created_at_ms, record.stat.version)
        if before is not None and (self._creation[0] != before[0] or self._creation[1] < before[1]):
            self._was_deleted = True

    async def _lead(self) -> LeaderElectionState:
        data = self._codec.encode(self._proposal)
        stat = await self._store.put(self.path, data, expected_version=MUST_NOT_EXIST, ephemeral=True)
        if not self._is_open:
            with suppress(MetadataError):
                await self._store.delete(self.path, expected_version=stat.version, if_own=True)
        return self._became(KeyFinding.OWN, self._proposal)

    def _became(self, finding: KeyFinding, leader: T | None) -> LeaderElectionState:
        self._check_open()
        self._found(finding, leader)
        self._report()
        return self._state

    def _found(self, finding: KeyFinding, leader: T | None) -> None:
        self._state = STATE_AFTER[finding]
        self._leader = leader

    def _report(self) -> None:
        if (self._state, self._leader) == self._reported and not self._was_deleted:
            return
        self._was_deleted = False
        self._reported = (self._state, self._leader)
        log.info("leader_election_state", path=self.path, state=self._state.value, leader=str(self._leader))
        if self._on_state is not None:
            try:
                self._on_state(self._state)
            except Exception:
                log.exception("leader_election_listener_failed", path=self.path)

    async def _resign(self) -> None:
        """Delete the leader's key if this session created it. The key of another leader is not deleted. If the store
        does not answer, this is logged, and the key stays until the session ends.
        """
        try:
            record = await self._store.get(self.path)
            if record is not None and record.stat.created_by_self:
                await self._store.delete(self.path, expected_version=record.stat.version, if_own=True)
        except (NotFoundError, BadVersionError, SessionLostError, StoreClosedError):
            pass  # the key does not exist, or is not this session's
        except MetadataError as error:
            log.warning("leader_key_left_to_session", path=self.path, reason=str(error))

    def _check_open(self) -> None:
        if not self._is_open:
            raise StoreClosedError(self.path)

    def _decode(self, record: Record) -> T | None:
        try:
            return self._codec.decode(self.path, record.value)
        except InvalidValueError:
            return None

    # ---- what makes it look again ----

    async def _keep(self) -> None:
        """Until the election is closed, read the leader's key every `recheck_s` seconds, each time the connection to
        the store is restored, and, while this candidate does not lead, each time the key has changed.
        """
        wait_s = self._recheck_s
        while self._is_open:
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._is_due.wait()
            self._is_due.clear()
            wait_s = self._recheck_s
            try:
                await self._look()
            except StoreClosedError:
                return
            except MetadataError as error:
                self._report()
                wait_s = self._back_off.next_s()
                log.warning("leader_election_failed", path=self.path, reason=str(error), retry_in_s=round(wait_s, 3))

    def _notified(self, notification: Notification) -> None:
        if notification.path != self.path:
            return
        if notification.type is NotificationType.DELETED:
            self._found(KeyFinding.DELETED, None)
            self._was_deleted = True
        if self._state is not LeaderElectionState.LEADING:
            self._is_due.set()

    def _session_event(self, event: SessionEvent) -> None:
        if event in CONNECTED_EVENTS:
            self._is_due.set()
