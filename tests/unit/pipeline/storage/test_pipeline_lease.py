"""The lease that replaces a lock where no kernel keeps one: its holder, its takeover, its messages."""

import itertools
import os
import threading
import time
from pathlib import Path

import msgspec
import pytest

from pulsar_barycenter.pipeline.storage.files import LocalStorage
from pulsar_barycenter.pipeline.storage.layout import LOCK
from pulsar_barycenter.pipeline.storage.lock import (
    LEASE_MS,
    AlreadyRunningError,
    Lease,
    Process,
    exclusive,
    is_held,
    is_running,
    leased,
)

_DEADLINE_S = 30.0
NOW_MS = 1_790_000_000_000
HERE, THERE = Process(host="here", pid=1, owner="a"), Process(host="there", pid=2, owner="b")


@pytest.fixture
def storage(tmp_path: Path) -> LocalStorage:
    return LocalStorage(tmp_path)


def nobody(_pid: int) -> bool:
    return False


def anybody(_pid: int) -> bool:
    return True


@pytest.mark.parametrize(
    ("host", "age_ms", "alive", "held"),
    [
        ("there", 0, False, True),  # of another machine only the time tells
        ("there", LEASE_MS - 1, False, True),
        ("there", LEASE_MS, True, False),
        ("here", 0, True, True),
        ("here", 0, False, False),
        ("here", LEASE_MS, True, False),  # the number is another process's by now
        ("there", -5000, False, True),  # its clock runs ahead
    ],
)
def test_a_lease_is_held_while_it_is_fresh_and_its_process_not_known_to_be_gone(
    host: str, age_ms: int, alive: bool, held: bool
) -> None:
    lease = Lease(owner="x", host=host, pid=7, renewed_at=NOW_MS - age_ms)
    assert is_held(lease, now_ms=NOW_MS, host="here", is_alive=lambda pid: alive and pid == 7) == held
    assert not is_held(None, now_ms=NOW_MS, host="here", is_alive=anybody)


def test_a_second_process_is_told_who_works_there_and_when_it_may(storage: LocalStorage) -> None:
    with leased(storage, clock_ms=lambda: NOW_MS, me=THERE):
        later = NOW_MS + LEASE_MS - 3000
        with (
            pytest.raises(AlreadyRunningError, match=r" is running in process 2 of there: .*try again in 3 s"),
            leased(storage, clock_ms=lambda: later, me=HERE, is_alive=nobody),
        ):
            pass
    with leased(storage, clock_ms=lambda: NOW_MS, me=HERE):
        assert storage.exists(LOCK)
    assert not storage.exists(LOCK)


def test_a_lease_that_grew_old_is_taken_over_and_left_alone_by_its_former_holder(storage: LocalStorage) -> None:
    """The former holder was paused, and ends later than it was replaced."""
    with leased(storage, clock_ms=lambda: NOW_MS, me=THERE):
        replacing = leased(storage, clock_ms=lambda: NOW_MS + LEASE_MS, me=HERE)
        replacing.__enter__()
    assert b'"host":"here"' in storage.read(LOCK)
    replacing.__exit__(None, None, None)
    assert not storage.exists(LOCK)


def test_a_holder_renews_its_lease_and_is_told_when_it_lost_it(
    storage: LocalStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Renewals come a thousand times as often here. The time written is the clock's."""
    monkeypatch.setattr("pulsar_barycenter.pipeline.storage.lock._RENEWALS", 3000)
    renewed, lost = threading.Event(), threading.Event()
    now = itertools.count(NOW_MS)

    def clock_ms() -> int:
        if (at := next(now)) > NOW_MS + 3:
            renewed.set()
        return at

    other = Lease(owner="b", host="there", pid=2, renewed_at=NOW_MS)
    with leased(storage, clock_ms=clock_ms, on_lost=lost.set, me=HERE):
        assert renewed.wait(_DEADLINE_S)
        found = msgspec.json.decode(storage.read(LOCK), type=Lease)
        assert (found.owner, found.renewed_at > NOW_MS) == ("a", True)
        deadline = time.monotonic() + _DEADLINE_S
        while not lost.wait(0.001):  # a renewal that had begun may write over it
            theirs = storage.root / "theirs"
            theirs.write_bytes(msgspec.json.encode(other))
            theirs.replace(storage.root / LOCK)
            assert time.monotonic() < deadline
    assert msgspec.json.decode(storage.read(LOCK), type=Lease) == other


class Elsewhere(LocalStorage):
    """A data directory that is reached as one of another machine is."""

    @property
    def local_root(self) -> None:  # type: ignore[override]
        return None


def test_whoever_asks_is_told_of_the_process_that_holds_the_lease(tmp_path: Path) -> None:
    """What a killed process left unfinished is gone."""
    storage, pid = Elsewhere(tmp_path), os.getpid()
    storage.write("pipeline/.status.json-1", b"{")
    with exclusive(storage, clock_ms=lambda: NOW_MS):
        assert is_running(storage, pid, now_ms=NOW_MS)
        assert not is_running(storage, pid + 1, now_ms=NOW_MS)
        assert not is_running(storage, pid, now_ms=NOW_MS + LEASE_MS)
        assert not storage.exists("pipeline/.status.json-1")
    assert not is_running(storage, pid, now_ms=NOW_MS)


def test_a_lock_that_is_no_lease_is_nobodys(storage: LocalStorage) -> None:
    """A folder that was copied from a machine brings the empty file that its kernel locked."""
    storage.write(LOCK, b"")
    with leased(storage, clock_ms=lambda: NOW_MS, me=HERE):
        assert b'"host":"here"' in storage.read(LOCK)
