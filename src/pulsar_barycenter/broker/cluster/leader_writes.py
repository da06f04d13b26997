"""`leaderOnlyMetadataWrites=true`: only the leader writes to the metadata store, for all brokers.

Every broker has a `LeasedStore`. It sends each write to the leader: within the process if this broker leads, else by a
request to the leader's web port. While this broker leads it has a `LeaderWriter`, one for each term, which carries the
requests out.

Source: no class of Pulsar; the proposal of a cluster in which only the leader writes.
"""

import asyncio
import random
import secrets
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec
import structlog

from pulsar_barycenter.admin.errors import AdminRequestError
from pulsar_barycenter.bounds.background import BackgroundTasks
from pulsar_barycenter.broker.cluster.leadership import CHANNEL_LEADER_PATH, LEADER_PATH, Leadership
from pulsar_barycenter.broker.cluster.registration import BROKERS_ROOT
from pulsar_barycenter.broker.cluster.writing_modes import refuse_direct_writers
from pulsar_barycenter.metadata.coordination.epochs import Epoch, epoch_path, read_epoch
from pulsar_barycenter.metadata.errors import MetadataError, NotLeadingError, StoreUnavailableError
from pulsar_barycenter.metadata.leader_writes.leader_writer import LeaderWriter
from pulsar_barycenter.metadata.leader_writes.leased_store import LeasedStore
from pulsar_barycenter.metadata.leader_writes.session_records import read_secret
from pulsar_barycenter.metadata.leader_writes.session_table import LeaseTimes
from pulsar_barycenter.metadata.leader_writes.write_requests import (
    Answer,
    Change,
    Failed,
    Request,
    answer_decoder,
    encode,
    not_done,
    request_decoder,
)
from pulsar_barycenter.metadata.store import MetadataStore

log = structlog.get_logger(__name__)

NUMBERS_ROOT: Final = "/counters"
OF_BROKERS: Final = (BROKERS_ROOT, "/loadbalance/extension/sessions", "/loadbalance/extension/records-readers")
"""The paths below which each broker has a key that is deleted when its session expires."""
LEASED_ROOTS: Final = ("/namespace", *OF_BROKERS)
"""The paths below which keys are deleted when their broker's session expires."""
_OWNERS_ROOTS: Final = ("/managed-ledgers/", f"{NUMBERS_ROOT}/")
_LEADERS_OWN: Final = frozenset(
    path for leader in (LEADER_PATH, CHANNEL_LEADER_PATH) for path in (leader, epoch_path(leader))
)
_PATIENCE_S: Final = 5.0

SendToLeader = Callable[[str, str, bytes], Awaitable[bytes]]
"""A function that sends a request to the broker at a web URL, with a secret, and returns the broker's answer."""


def is_own(path: str) -> bool:
    """Return whether a broker writes `path` itself, although the leader writes all other metadata. These are the
    records of topics that the broker owns, and those of the election.
    """
    return path.startswith(_OWNERS_ROOTS) or path in _LEADERS_OWN


class LeaderWrites:
    """The writing of metadata in clusters where only the leader writes. Implements `MetadataWriting`."""

    def __init__(
        self, store: MetadataStore, source: random.Random, send: SendToLeader, *, session_timeout_s: float
    ) -> None:
        self._store = store
        self._send = send
        self.times = LeaseTimes(session_timeout_s)
        self.store = LeasedStore(
            store,
            self._ask,
            self.times,
            is_own=is_own,
            draw_session=lambda: f"{source.getrandbits(128):032x}",
            patience_s=_PATIENCE_S,
            source=source,
        )
        """The store that all parts of this broker use."""
        self._leadership: Leadership | None = None
        self._writer: LeaderWriter | None = None
        self._run: asyncio.Task[None] | None = None
        self._tasks = BackgroundTasks("leader_writes_failed", expected=(MetadataError,))
        self._known: tuple[int, str] | None = None
        """The epoch and the secret that were read last; None: read them again, because a leader did not accept them."""
        self._learning: asyncio.Task[tuple[int, str]] | None = None
        self._closed = False

    @property
    def former_session_s(self) -> float:
        """The longest time for which keys of a former process of this broker may remain, in seconds: twice the session
        timeout.

        If that process was the leader, its leader key expires first, and its session after that.
        """
        return self.times.timeout_s * 2

    @property
    def lease_s(self) -> float:
        return self.times.lease_s

    def leadership(self, path: str, *, refresh_after_s: float, source: random.Random) -> Leadership:
        """Return the object for this broker's part in the election of the leader, which writes for all brokers. Called
        once. `refresh_after_s` is the age in seconds at which a cached value of the leader's key is read again;
        `source` generates random pauses.
        """
        leadership = Leadership(self._store, path, writes=self.store, refresh_after_s=refresh_after_s, source=source)
        self._leadership = leadership
        leadership.on_change(self._update_term)
        return leadership

    async def open(self, broker_id: str, lead: Callable[[], Awaitable[None]]) -> None:
        """Take part in the election of the leader, by calling `lead`, and open a session at the leader. Wait for a
        leader if there is none.

        Raises:
            MixedWritersError: running brokers write metadata themselves.
            StoreUnavailableError: no leader opened a session within three session timeouts and some seconds.
            MetadataError: the store did not answer.
        """
        assert self._leadership is not None
        await lead()
        await self.store.open(broker_id, within_s=self.times.timeout_s * 3 + _PATIENCE_S)
        await refuse_direct_writers(self._store, self._leadership.path, within_s=self.times.timeout_s * 1.2 + 2)

    async def refuse_others(self) -> None:
        """Do nothing: `open` checked that no broker with another mode of writing metadata runs, and none can start
        while this broker runs.
        """

    async def resign(self) -> None:
        """Do nothing: a leader continues to write until it is closed."""

    async def step_down(self) -> None:
        self.store.be_brief()

    async def close(self) -> None:
        """Close the session of this broker, and stop writing for other brokers. Idempotent."""
        await self.store.close()
        self._closed = True
        self._end_term()
        if self._learning is not None:
            self._learning.cancel()
        await self._tasks.ended()

    # ---- requests of this broker ----

    async def _ask(self, session: str, number: int, over_below: int, change: Change) -> Answer:
        """Send one write request to the leader, once; return its answer. If this broker is the leader, carry the
        request out here.

        `session` is the session of this broker at the leader, `number` the number of the request in this session. Of
        requests with a number below `over_below`, this broker does not wait for an answer any more; if one arrives
        late, the leader does not carry it out.
        """
        leadership = self._leadership
        assert leadership is not None, "it is attached before anything is written"
        epoch, secret = self._known or await self._learnt()
        request = Request(secret, epoch, session, number, over_below, change)
        leader = leadership.leader()
        if self._writer is not None or leadership.has_duties:
            answer = await self.answer(request)
        elif leader is None or not leader.service_url:
            answer = not_done("/", "no broker is leader now")
        else:
            answer = await self._sent(leader.service_url, secret, encode(request))
        if isinstance(answer, Failed) and answer.kind == "not done":
            self._known = None
        return answer

    async def _learnt(self) -> tuple[int, str]:
        """Return the leader's epoch and secret; wait until they have been read from the store. Concurrent callers share
        one read, which continues if a caller is cancelled.
        """
        if self._learning is None:
            self._learning = self._tasks.start(self._learn(), "learn leader epoch")
            self._learning.add_done_callback(self._learning_done)
        return await asyncio.shield(self._learning)

    def _learning_done(self, task: asyncio.Task[tuple[int, str]]) -> None:
        self._learning = None
        if not task.cancelled() and task.exception() is None:
            self._known = task.result()

    async def _learn(self) -> tuple[int, str]:
        """Read the leader's present epoch and secret from the store.

        Raises:
            NotLeadingError: no leader has stored its epoch and secret yet.
        """
        assert self._leadership is not None
        reads = read_epoch(self._store, self._leadership.path), read_secret(self._store)
        epoch, secret = await asyncio.gather(*reads)
        if epoch is None or secret is None:
            raise NotLeadingError("/", "no leader has stored its epoch and secret yet. Try again")
        return epoch.number, secret

    async def _sent(self, web_url: str, secret: str, request: bytes) -> Answer:
        try:
            return answer_decoder.decode(await self._send(web_url, secret, request))
        except ConnectionRefusedError as error:
            return not_done("/", f"the leader cannot be reached: {error}")
        except (AdminRequestError, OSError, msgspec.DecodeError, msgspec.ValidationError) as error:
            raise StoreUnavailableError(
                "/", f"the leader gave no valid answer, so it is not known whether the write was done: {error}"
            ) from error

    # ---- requests of other brokers ----

    async def answer_to(self, body: bytes) -> bytes:
        """As the leader, carry out another broker's request to write; return the encoded answer.

        Raises:
            msgspec.ValidationError, msgspec.DecodeError: `body` is not a valid request.
        """
        return encode(await self.answer(request_decoder.decode(body)))

    def knows(self, secret: str) -> bool:
        """Return whether this broker is the leader that writes for all brokers, and `secret` is the secret that
        requests to it must contain.
        """
        return self._writer is not None and self._writer.knows(secret)

    async def answer(self, request: Request) -> Answer:
        writer = self._writer
        if writer is None:
            return not_done("/", "this broker is not the leader")
        return await writer.answer(request)

    # ---- terms ----

    def _update_term(self) -> None:
        """Begin to write for all brokers if this broker has become the leader, or stop if it is the leader no more."""
        leadership = self._leadership
        assert leadership is not None
        epoch = None if self._closed else leadership.epoch_of_term()
        if self._writer is not None and self._writer.epoch is not epoch:
            self._end_term()
        if epoch is not None and self._writer is None:
            self._begin_term(epoch, leadership)

    def _begin_term(self, epoch: Epoch, leadership: Leadership) -> None:
        self._writer = LeaderWriter(
            self._store,
            epoch,
            self.times,
            LEASED_ROOTS,
            small_roots=OF_BROKERS,
            numbers=NUMBERS_ROOT,
            may_write=lambda path: not is_own(path),
            draw_secret=lambda: secrets.token_hex(16),  # must not be predictable; no result depends on it
            end_term=leadership.superseded,
        )
        self._run = self._tasks.start(self._writer.run(), "leader writes for all")

    def _end_term(self) -> None:
        writer, run, self._writer, self._run = self._writer, self._run, None, None
        if run is not None:
            run.cancel()
        if writer is not None:
            writer.is_over = True
            self._tasks.start(writer.close(), "leader ends to write")
