"""Lets at most one process run the pipeline of a data directory.

In a folder of this machine the process holds a lock of the kernel, which releases it when the process dies.

Elsewhere there is no such lock. The process writes a lease: its id and the time. It renews the lease several times
within `LEASE_MS`. A lease is void if it was last renewed `LEASE_MS` ago or earlier, or if its process was of this
machine and no longer exists. The lease does not exclude two processes that take it at the same moment, or whose clocks
differ by more than `LEASE_MS`. Then no process gets an `AlreadyRunningError`, but the tables stay exact: Spark's record
of batches accepts one writer for each batch, and a batch that runs twice writes the same files.
"""

import fcntl
import os
import socket
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec
import psutil
import structlog

from pulsar_barycenter.pipeline.storage.files import Storage, clear_unfinished
from pulsar_barycenter.pipeline.storage.layout import HOME, LOCK, PUBLICATION, create_folders

log = structlog.get_logger(__name__)

LEASE_MS: Final = 30_000
_RENEWALS: Final = 3


class AlreadyRunningError(RuntimeError):
    """Another process runs the pipeline of this data directory."""


class Lease(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The content of the lock file of a data directory that is not local: the process that runs the pipeline, and when
    (epoch ms) it last renewed the lease.

    `owner` is a random id of this run of the process.
    """

    owner: str
    host: str
    pid: int
    renewed_at: int


@dataclass(frozen=True, slots=True)
class Process:
    """The identity of a process that may hold a lease; `owner` is a random id for this run of the process."""

    host: str = field(default_factory=socket.gethostname)
    pid: int = field(default_factory=os.getpid)
    owner: str = field(default_factory=lambda: uuid.uuid4().hex)


def is_held(lease: Lease | None, *, now_ms: int, host: str, is_alive: Callable[[int], bool]) -> bool:
    """Return whether `lease` is still valid: it was renewed less than LEASE_MS ago, and its process exists. For a
    process on another host than `host`, only the first condition can be checked. `is_alive(pid)` returns whether a
    process with this id exists on `host`. If there is no lease (None), return False.
    """
    if lease is None or now_ms - lease.renewed_at >= LEASE_MS:
        return False
    return lease.host != host or is_alive(lease.pid)


def is_running(storage: Storage, pid: int, *, now_ms: int) -> bool:
    """Return whether the process with the id `pid` exists and runs the pipeline of `storage`.

    The id alone is no proof: after a restart of the machine another process may have the same id. So the lock or lease
    is checked as well. For a local data directory it shows only that some process runs the pipeline.
    """
    if storage.local_root is None:
        lease = _read(storage)
        held = is_held(lease, now_ms=now_ms, host=socket.gethostname(), is_alive=psutil.pid_exists)
        return held and lease is not None and lease.pid == pid
    if not psutil.pid_exists(pid):
        return False
    try:
        with (storage.local_root / LOCK).open() as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        pass
    return False


@contextmanager
def exclusive(
    storage: Storage, *, clock_ms: Callable[[], int], on_lost: Callable[[], None] = lambda: None
) -> Iterator[None]:
    """Hold the lock of a local data directory, or the lease of another one, until the block ends. Create the folders of
    the pipeline, and delete unfinished files there.

    A lease must be renewed in time. If a renewal finds that the lease is missing or belongs to another process,
    `on_lost` is called once, from another thread. The block is not interrupted: `on_lost` must make it end.

    Raises:
        AlreadyRunningError: another process holds the lock or lease.
    """
    create_folders(storage)
    held = _locked(storage.local_root) if storage.local_root else leased(storage, clock_ms=clock_ms, on_lost=on_lost)
    with held:
        for folder in (HOME, PUBLICATION.rpartition("/")[0]):
            clear_unfinished(storage, folder)
        yield


@contextmanager
def _locked(root: Path) -> Iterator[None]:
    # O_NOFOLLOW and no O_TRUNC: a link, or a file with content, may belong to another program.
    file = os.open(root / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise AlreadyRunningError(f"another process runs the pipeline of {root}: stop that process first") from None
        yield
    finally:
        os.close(file)


@contextmanager
def leased(
    storage: Storage,
    *,
    clock_ms: Callable[[], int],
    on_lost: Callable[[], None] = lambda: None,
    me: Process | None = None,
    is_alive: Callable[[int], bool] = psutil.pid_exists,
) -> Iterator[None]:
    """Hold the lease of `storage` until the block ends. A thread renews the lease. If a renewal finds that the lease is
    missing or belongs to another process, the thread calls `on_lost` once, and ends. When the block ends, the lease is
    deleted, unless it belongs to another process by then.

    `me` is the process that holds the lease; None: this process. `is_alive(pid)` returns whether a process with this id
    exists on this host.

    Raises:
        AlreadyRunningError: another process holds a valid lease.
    """
    me = me or Process()
    found = _read(storage)
    if found is not None and is_held(found, now_ms=clock_ms(), host=me.host, is_alive=is_alive):
        left_s = max(0, found.renewed_at + LEASE_MS - clock_ms()) / 1000
        raise AlreadyRunningError(
            f"the pipeline of {storage.address()} is running in process {found.pid} of {found.host}: stop that"
            f" process first, or, if it no longer exists, try again in {left_s:.0f} s"
        )
    _write(storage, me, clock_ms())
    done = threading.Event()
    renewal = threading.Thread(
        target=_renew, args=(storage, me, done, clock_ms, on_lost), name="pipeline lease", daemon=True
    )
    renewal.start()
    try:
        yield
    finally:
        done.set()
        renewal.join()
        with suppress(OSError):  # Java may have ended; then the lease expires
            if _is_of(_read(storage), me):
                storage.delete(LOCK)


def _renew(
    storage: Storage, me: Process, done: threading.Event, clock_ms: Callable[[], int], on_lost: Callable[[], None]
) -> None:
    while not done.wait(LEASE_MS / _RENEWALS / 1000):
        try:
            if not _is_of(found := _read(storage), me):
                log.error("pipeline_lease_lost", to=None if found is None else f"process {found.pid} of {found.host}")
                on_lost()
                return
            _write(storage, me, clock_ms())
        except OSError as error:
            log.warning("pipeline_lease_not_renewed", reason=str(error))


def _is_of(lease: Lease | None, me: Process) -> bool:
    return lease is not None and lease.owner == me.owner


def _read(storage: Storage) -> Lease | None:
    try:
        return msgspec.json.decode(storage.read(LOCK), type=Lease)
    except (FileNotFoundError, msgspec.DecodeError):  # DecodeError: a copy of a local folder has a lock without content
        return None


def _write(storage: Storage, me: Process, now_ms: int) -> None:
    storage.write(LOCK, msgspec.json.encode(Lease(owner=me.owner, host=me.host, pid=me.pid, renewed_at=now_ms)))
