"""Carries out the actions of the state machine of one ledger, and reports their results to the machine."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final, Protocol

import structlog

from pulsar_barycenter.bookkeeper.client.bookie_pool import BookiePool
from pulsar_barycenter.bookkeeper.client.connection import AddRequest, OnAddAnswers, Request
from pulsar_barycenter.bookkeeper.errors import BookKeeperError, LedgerMetadataError, NoSuchLedgerError
from pulsar_barycenter.bookkeeper.machines.actions import (
    Action,
    Confirmed,
    Ended,
    Failed,
    ReadMetadata,
    SendAdds,
    SendRead,
    Stopped,
    StoredLedger,
    SwapMetadata,
    Verdict,
    verdict_of,
)
from pulsar_barycenter.bookkeeper.metadata.ledger_store import LedgerStore
from pulsar_barycenter.bookkeeper.wire.digests import Body
from pulsar_barycenter.bookkeeper.wire.packets import (
    PLAIN,
    RECOVERY_ADD,
    Code,
    Operation,
    encode_adds,
    encode_fencing_read,
    encode_read,
)
from pulsar_barycenter.bounds.back_off import Doubling
from pulsar_barycenter.bounds.background import BackgroundTasks
from pulsar_barycenter.metadata.errors import MetadataError, StoreClosedError

log = structlog.get_logger(__name__)

_FIRST_RETRY_S: Final = 0.1
_LONGEST_RETRY_S: Final = 5.0


class Machine(Protocol):
    """The common interface of the state machines `Writer` and `Recovery`. Each method reports one event to the machine,
    and returns the actions that the caller has to carry out next.
    """

    def swapped(self, version: int) -> list[Action]: ...

    def swap_failed(self) -> list[Action]: ...

    def metadata_read(self, stored: StoredLedger | None) -> list[Action]: ...

    def adds_answered(self, bookie: str, entries: Sequence[int], verdict: Verdict) -> list[Action]: ...


def send_read(
    pool: BookiePool, ledger: int, key: bytes, read: SendRead, told: Callable[[Verdict, bytes], None]
) -> None:
    """Send a read to a bookie. When the answer comes, `told` is called with what the answer says about the entry (a
    `Verdict`), and with the entry's bytes. `key` is the ledger's key, which a fencing read must have.
    """
    frame = encode_fencing_read(ledger, read.entry, key) if read.is_fencing else encode_read(ledger, read.entry)

    def answered(code: Code, body: bytes) -> None:
        told(verdict_of(code), body)

    pool.send(read.bookie, Request((Operation.READ, ledger, read.entry), frame, answered))


class Driver:
    """Carries out the actions of one state machine. `on_result` is called with each action that reports a result
    (Confirmed, Stopped, Ended and Failed), and must not raise.
    """

    def __init__(
        self,
        ledger: int,
        key: bytes,
        machine: Machine,
        pool: BookiePool,
        store: LedgerStore,
        on_result: Callable[[Confirmed | Stopped | Ended | Failed], None],
        on_read: Callable[[str, int, Verdict, bytes], list[Action]] = lambda *_: [],
    ) -> None:
        self._ledger = ledger
        self._key = key
        self._machine = machine
        self._pool = pool
        self._store = store
        self._on_result = on_result
        self._on_read = on_read
        self._is_closed = False
        self._takers: dict[str, OnAddAnswers] = {}
        """The functions that get the answers to adds, by bookie. One function for all adds to a bookie lets its
        connection pass on a run of answers in one call.
        """
        self._tasks = BackgroundTasks("ledger_metadata_not_changed")

    def act(self, actions: Iterable[Action]) -> None:
        """Carry out the actions that the machine returned. After `close` this does nothing."""
        if self._is_closed:
            return
        bodies: Sequence[Body] = ()
        frames: Sequence[bytes] = ()
        for action in actions:
            match action:
                case SendAdds():
                    if action.bodies is not bodies:  # where all members get the entries, they get the same bytes
                        bodies = action.bodies
                        frames = encode_adds(self._key, bodies, RECOVERY_ADD if action.is_recovery else PLAIN)
                    self._send_adds(action, frames)
                case SendRead():
                    self._send_read(action)
                case SwapMetadata():
                    self._tasks.start(self._swap(action), f"ledger {self._ledger} swap")
                case ReadMetadata():
                    self._tasks.start(self._read(), f"ledger {self._ledger} read")
                case _:
                    self._on_result(action)

    def close(self) -> None:
        self._is_closed = True
        self._tasks.cancel()

    def _send_adds(self, adds: SendAdds, frames: Sequence[bytes]) -> None:
        bookie = adds.bookie
        taker = self._takers.get(bookie)
        if taker is None:
            taker = self._takers[bookie] = partial(self._adds_answered, bookie)
        self._pool.send(bookie, AddRequest(self._ledger, adds.entries, frames, taker))

    def _adds_answered(self, bookie: str, entries: Sequence[int], code: Code) -> None:
        self.act(self._machine.adds_answered(bookie, entries, verdict_of(code)))

    def _send_read(self, read: SendRead) -> None:
        def told(verdict: Verdict, body: bytes) -> None:
            self.act(self._on_read(read.bookie, read.entry, verdict, body))

        send_read(self._pool, self._ledger, self._key, read, told)

    async def _swap(self, swap: SwapMetadata) -> None:
        try:
            version = await self._store.swap(self._ledger, swap.metadata, swap.version)
        except MetadataError as error:
            log.info("ledger_swap_failed", ledger=self._ledger, error=str(error))
            self.act(self._machine.swap_failed())
            return
        self.act(self._machine.swapped(version))

    async def _read(self) -> None:
        """Read the ledger's metadata until the store answers, because the machine cannot continue without it."""
        waits = Doubling(_FIRST_RETRY_S, _LONGEST_RETRY_S)
        while True:
            try:
                stored = [StoredLedger(*await self._store.read(self._ledger))]
                break
            except NoSuchLedgerError:
                stored = []
                break
            except StoreClosedError:
                error = BookKeeperError(
                    f"ledger {self._ledger}: the metadata store was closed while the metadata of the ledger was changed"
                )
                self._on_result(Failed(error))
                return
            except (MetadataError, LedgerMetadataError) as error:
                log.warning("ledger_not_read", ledger=self._ledger, error=str(error))
                await asyncio.sleep(waits.next_s())
        self.act(self._machine.metadata_read(stored[0] if stored else None))
