"""Leader election on one path of the metadata store: who creates the ephemeral key leads.

| event                                     | what an elected instance does                                   |
|-------------------------------------------|-----------------------------------------------------------------|
| key deleted while a leader was known      | NO_LEADER, then elects again with the same proposal; listeners  |
|                                           | hear of NO_LEADER only if that fails                            |
| key created or changed by somebody else   | looks again                                                     |
| RECONNECTED, SESSION_REESTABLISHED        | looks again: a leader whose key survived stays leader unheard   |
| an election fails for want of the store   | tries again every 2.5 to 5 s until closed                       |
| every `recheck_s`                         | looks again, in case a notification was lost unnoticed          |
| a key of others was created anew meanwhile| as if it had been told to be gone in between                    |

STATE_AFTER has no entry for a connection that breaks: a former leader goes on believing until
it can talk to the store again. Whoever acts as leader proves it at the point of effect.

Source: Pulsar's `LeaderElectionImpl`. We differ where our own session's key holds another value than the
proposal: it is overwritten in place, so that leadership does not change hands.
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


class Finding(enum.Enum):
    """What a candidate learns of the key."""

    OWN = "own"
    """It is this session's."""
    OTHERS = "others"
    """It is another session's."""
    DELETED = "deleted"
    """It is gone."""
    LEFT = "left"
    """What it holds no longer matters: this candidate takes part no more."""


STATE_AFTER: Final[Mapping[Finding, LeaderElectionState]] = {
    Finding.OWN: LeaderElectionState.LEADING,
    Finding.OTHERS: LeaderElectionState.FOLLOWING,
    Finding.DELETED: LeaderElectionState.NO_LEADER,
    Finding.LEFT: LeaderElectionState.NO_LEADER,
}
"""The state after each finding, whatever it was before: the key alone decides, never the connection."""


class LeaderElection(Generic[T]):
    """One candidate. `on_state` is called on the event loop with each new outcome; to follow another leader is a new
    one, and so is the former one if `state` was another in between: the key was told to be gone.

    `proposal` is what the key holds while this candidate leads; `same_owner` (default: equality) tells whether
    a key that another session wrote is a left-over of our own former life. Close it before the store.
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
        """`source` is what pauses between attempts are drawn from, the system's randomness unless given."""
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
        self._told: tuple[LeaderElectionState, T | None] = (self._state, None)
        self._was_gone = False
        """The key was told to be gone since `on_state` was called last: whoever looked saw that."""
        self._life: tuple[int, int] | None = None
        """When the key of others that was seen last was created, and its version then."""
        self._serial = asyncio.Lock()
        self._is_open = False
        self._declines = False
        self._is_due = asyncio.Event()
        self._keeper: asyncio.Task[None] | None = None
        self._stops: tuple[Callable[[], None], ...] = ()

    @property
    def state(self) -> LeaderElectionState:
        return self._state

    def leader_if_known(self) -> T | None:
        """Return the leader's value as far as it is known now; never waits."""
        return self._leader

    async def elect(self, proposal: T | None = None) -> LeaderElectionState:
        """Take part from now on, if not already, and return whether we lead or follow.

        Raises:
            MetadataError: the store did not answer; the election goes on in the background.
            StoreClosedError: this election was closed meanwhile.
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
        """From now on never begin to lead, only see who does; whoever leads does so until `close`."""
        self._declines = True

    async def close(self) -> None:
        """Leave the election; a leader deletes its key if the key is still its own. Idempotent.

        `elect` opens it again.
        """
        if not self._is_open:
            return
        self._is_open = False
        for stop in self._stops:
            stop()
        self._is_due.set()
        if self._keeper is not None:
            await asyncio.wait([self._keeper])  # not cancelled: a key that is just being written must be known
        async with self._serial:
            self._found(Finding.LEFT, None)
            self._told = (self._state, self._leader)
            await self._resign()

    # ---- the election ----

    async def _look(self) -> LeaderElectionState:
        """Find out who leads; lead if nobody does."""
        async with self._serial:
            while True:
                self._check_open()
                with suppress(BadVersionError, NotFoundError):  # somebody was faster: look at what he did
                    return await self._look_once()

    async def _look_once(self) -> LeaderElectionState:
        record = await self._store.get(self.path)
        self._note_life(record)
        if record is None:
            return self._became(Finding.DELETED, None) if self._declines else await self._lead()
        stored = self._decode(record)
        version = record.stat.version
        if record.stat.created_by_self:
            if stored != self._proposal:
                data = self._codec.encode(self._proposal)
                await self._store.put(self.path, data, expected_version=version, ephemeral=True, if_own=True)
            return self._became(Finding.OWN, self._proposal)
        if not self._declines and stored is not None and self._same_owner(stored, self._proposal):
            # Our own former life, about to expire.
            await self._store.delete(self.path, expected_version=version)
            return await self._lead()
        return self._became(Finding.OTHERS, stored)

    def _note_life(self, record: Record | None) -> None:
        """A key of others that was created later than the one seen before says that this one was deleted.

        Its value and its version may be the same: a leader that starts again creates the key that it had.
        """
        before, self._life = self._life, None
        if record is None or record.stat.created_by_self:
            return
        self._life = (record.stat.created_at_ms, record.stat.version)
        if before is not None and (self._life[0] != before[0] or self._life[1] < before[1]):
            self._was_gone = True

    async def _lead(self) -> LeaderElectionState:
        data = self._codec.encode(self._proposal)
        stat = await self._store.put(self.path, data, expected_version=MUST_NOT_EXIST, ephemeral=True)
        if not self._is_open:
            with suppress(MetadataError):
                await self._store.delete(self.path, expected_version=stat.version, if_own=True)
        return self._became(Finding.OWN, self._proposal)

    def _became(self, finding: Finding, leader: T | None) -> LeaderElectionState:
        self._check_open()
        self._found(finding, leader)
        self._tell()
        return self._state

    def _found(self, finding: Finding, leader: T | None) -> None:
        self._state = STATE_AFTER[finding]
        self._leader = leader

    def _tell(self) -> None:
        if (self._state, self._leader) == self._told and not self._was_gone:
            return
        self._was_gone = False
        self._told = (self._state, self._leader)
        log.info("leader_election_state", path=self.path, state=self._state.value, leader=str(self._leader))
        if self._on_state is not None:
            try:
                self._on_state(self._state)
            except Exception:
                log.exception("leader_election_listener_failed", path=self.path)

    async def _resign(self) -> None:
        """Delete our key, and no successor's: ours is one that this very session created."""
        try:
            record = await self._store.get(self.path)
            if record is not None and record.stat.created_by_self:
                await self._store.delete(self.path, expected_version=record.stat.version, if_own=True)
        except (NotFoundError, BadVersionError, SessionLostError, StoreClosedError):
            pass  # it is gone, or not ours
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
        """Look again whenever it is due, until closed."""
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
                self._tell()
                wait_s = self._back_off.next_s()
                log.warning("leader_election_failed", path=self.path, reason=str(error), retry_in_s=round(wait_s, 3))

    def _notified(self, notification: Notification) -> None:
        if notification.path != self.path:
            return
        if notification.type is NotificationType.DELETED:
            self._found(Finding.DELETED, None)
            self._was_gone = True
        if self._state is not LeaderElectionState.LEADING:
            self._is_due.set()

    def _session_event(self, event: SessionEvent) -> None:
        if event in CONNECTED_EVENTS:
            self._is_due.set()
