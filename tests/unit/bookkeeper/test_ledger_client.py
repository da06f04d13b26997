"""The client with bookies on loopback that speak the protocol: what programs call, time-outs, bounds, and errors."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from pulsar_barycenter.bookkeeper.client.client_settings import ClientSettings, LedgerShape
from pulsar_barycenter.bookkeeper.client.room import Room
from pulsar_barycenter.bookkeeper.errors import (
    BookKeeperError,
    ClusterLayoutError,
    EntryTooLargeError,
    InvalidQuorumError,
    NoSuchEntryError,
    NoSuchLedgerError,
    RecoveryError,
    TooFewBookiesError,
    UnreadableEntryError,
    WriterClosedError,
    WriterFencedError,
    WriterStoppedError,
    WrongPasswordError,
)
from pulsar_barycenter.bookkeeper.metadata.ledger_metadata import LedgerState
from pulsar_barycenter.bookkeeper.wire.digests import DigestType
from pulsar_barycenter.bookkeeper.wire.packets import Code, Operation
from support.bookkeeper_server import BookieCluster

ALL = LedgerShape(3, 3, 2)
MANY = 1 << 30


class Reports:
    """What a writer reported."""

    def __init__(self) -> None:
        self.last = -1
        self.errors: list[tuple[int, BookKeeperError]] = []

    def __call__(self, entry: int, error: BookKeeperError | None) -> None:
        if error is None:
            assert not self.errors
            assert entry > self.last
            self.last = entry
        else:
            self.errors.append((entry, error))


def played(count: int, test: Callable[[BookieCluster], Awaitable[None]]) -> None:
    async def play() -> None:
        async with BookieCluster(count) as cluster:
            await test(cluster)

    asyncio.run(asyncio.wait_for(play(), 30))


def test_the_newest_entry_is_read_without_taking_the_ledger_over():
    """Also before a later entry confirms it, as the last write of a cursor is followed by none."""

    async def test(cluster: BookieCluster) -> None:
        client = await cluster.client()
        writer = await client.create(ALL, Reports())
        assert await client.newest_entry(writer.ledger) is None
        for data in (b"first", b"second"):
            await writer.add(data)
            assert await client.newest_entry(writer.ledger) == data
        await writer.add(b"still its writer")
        await writer.close()
        assert await client.newest_entry(writer.ledger) == b"still its writer"
        empty = await client.create(ALL, Reports())
        await empty.close()
        assert await client.newest_entry(empty.ledger) is None

    played(3, test)


@pytest.mark.parametrize("kind", [DigestType.CRC32C, DigestType.CRC32, DigestType.HMAC])
def test_entries_are_written_read_and_closed(kind):
    async def test(cluster: BookieCluster) -> None:
        client = await cluster.client(max_reads=7)
        reports = Reports()
        writer = await client.create(LedgerShape(3, 2, 2, kind, b"secret"), reports, custom={"k": b"v"})
        entries = [b"%d" % number * 9 for number in range(50)]
        assert [writer.append(data) for data in entries] == list(range(50))
        assert await writer.add(b"last") == 50
        growing = client.reader_of(writer)
        assert await growing.read(50, 50, max_bytes=MANY) == [b"last"]
        metadata = await writer.close()
        assert (metadata.state, metadata.last_entry, metadata.custom) == (LedgerState.CLOSED, 50, {"k": b"v"})
        assert metadata.length == sum(map(len, entries)) + 4
        assert await writer.close() == metadata
        reader = await client.open_unfenced(writer.ledger, password=b"secret")
        assert await reader.read(0, 50, max_bytes=MANY) == [*entries, b"last"]
        before = sum(bookie.requests[Operation.READ] for bookie in cluster.bookies)
        assert await reader.read(0, 50, max_bytes=30) == entries[:3]
        assert sum(bookie.requests[Operation.READ] for bookie in cluster.bookies) - before <= 4
        assert await reader.read(20, 50, max_bytes=1) == [entries[20]]
        assert (reports.last, reports.errors) == (50, [])
        with pytest.raises(WriterClosedError):
            writer.append(b"x")

    played(3, test)


def test_it_runs_on_the_loop_of_a_broker():
    async def play() -> None:
        async with BookieCluster(1) as cluster:
            client = await cluster.client()
            writer = await client.create(LedgerShape(1, 1, 1), Reports())
            assert await writer.add(b"0") == 0

    uvloop = pytest.importorskip("uvloop")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(asyncio.wait_for(play(), 10))


def test_a_ledger_without_entries_is_closed_and_recovered():
    async def test(cluster: BookieCluster) -> None:
        client = await cluster.client()
        writer = await client.create(ALL, Reports())
        assert (await client.recover(writer.ledger)).last_entry == -1
        metadata = await client.metadata(writer.ledger)
        assert (metadata.last_entry, metadata.length) == (-1, 0)
        assert await writer.close() == metadata

    played(3, test)


def test_a_recovery_takes_all_that_was_reported_and_fences_the_writer():
    async def test(cluster: BookieCluster) -> None:
        client, other = await cluster.client(), await cluster.client()
        reports = Reports()
        writer = await client.create(ALL, reports)
        for number in range(30):
            await writer.add(b"%d" % number)
        seen = await other.open_unfenced(writer.ledger)
        assert seen.last_entry == 28  # the last entry tells the one before
        reader = await other.recover(writer.ledger)
        assert await reader.read(0, 29, max_bytes=MANY) == [b"%d" % number for number in range(30)]
        with pytest.raises(WriterFencedError, match="another client took the ledger over"):
            await writer.add(b"late")
        ((entry, error),) = reports.errors
        assert (entry, type(error)) == (30, WriterFencedError)
        with pytest.raises(WriterStoppedError):
            await writer.close()
        assert (await other.recover(writer.ledger)).last_entry == 29

    played(3, test)


def test_a_bookie_that_stops_is_done_without_and_then_replaced():
    async def test(cluster: BookieCluster) -> None:
        client = await cluster.client()
        writer = await client.create(ALL, Reports())
        await writer.add(b"0")
        first, second, _ = writer.metadata.last_segment.members
        await cluster.named(first).stop()
        await writer.add(b"1")
        assert len(writer.metadata.segments) == 1
        await cluster.named(second).stop()
        await writer.add(b"2")
        assert [segment.first for segment in writer.metadata.segments] == [0, 2]
        assert not {first, second} & set(writer.metadata.last_segment.members)
        await writer.close()
        reader = await client.open_unfenced(writer.ledger)
        assert await reader.read(0, 2, max_bytes=MANY) == [b"0", b"1", b"2"]

    played(5, test)


def test_without_a_replacement_entries_fail_and_the_ledger_closes_where_it_was_confirmed():
    async def test(cluster: BookieCluster) -> None:
        client = await cluster.client()
        reports = Reports()
        writer = await client.create(LedgerShape(2, 2, 2), reports)
        await writer.add(b"0")
        await cluster.bookies[0].stop()
        with pytest.raises(TooFewBookiesError, match="Start bookies"):
            await writer.add(b"1")
        assert [entry for entry, _ in reports.errors] == [1]
        assert (await writer.close()).last_entry == 0

    played(2, test)


def test_a_mute_bookie_costs_a_timeout_and_its_connection():
    async def test(cluster: BookieCluster) -> None:
        client = await cluster.client(timeout_s=0.2)
        writer = await client.create(ALL, Reports())
        mute = {cluster.named(name) for name in writer.metadata.last_segment.members[:2]}
        for bookie in mute:
            bookie.is_mute = True
        await writer.add(b"0")
        assert not {bookie.name for bookie in mute} & set(writer.metadata.last_segment.members)

    played(5, test)


def test_a_slow_bookie_is_not_waited_for_by_reads():
    async def test(cluster: BookieCluster) -> None:
        client = await cluster.client(speculative_read_s=0.01)
        writer = await client.create(ALL, Reports())
        await writer.add(b"0")
        await writer.close()
        cluster.named(writer.metadata.write_set(0)[0]).is_mute = True
        reader = await client.open_unfenced(writer.ledger)
        assert await reader.read(0, 0, max_bytes=1) == [b"0"]

    played(3, test)


def test_damaged_entries_are_read_from_the_next_bookie_and_lost_ones_are_told():
    async def test(cluster: BookieCluster) -> None:
        client = await cluster.client()
        writer = await client.create(ALL, Reports())
        for data in (b"0", b"1"):
            await writer.add(data)
        await writer.close()
        members = [cluster.named(name).ledgers[writer.ledger].entries for name in writer.metadata.write_set(1)]
        members[0][1] = members[0][1][:-1] + b"x"
        reader = await client.open_unfenced(writer.ledger)
        assert await reader.read(1, 1, max_bytes=1) == [b"1"]
        for entries in members[1:]:
            del entries[1]
        with pytest.raises(UnreadableEntryError, match="the digest does not match"):
            await reader.read(1, 1, max_bytes=1)
        assert await reader.read(0, 1, max_bytes=MANY) == [b"0"]
        del members[0][1]
        with pytest.raises(NoSuchEntryError, match="entry 1 is lost"):
            await reader.read(1, 1, max_bytes=1)

    played(3, test)


def test_an_entry_that_auto_recovery_moved_is_found():
    async def test(cluster: BookieCluster) -> None:
        client = await cluster.client()
        writer = await client.create(LedgerShape(1, 1, 1), Reports())
        await writer.add(b"0")
        metadata = await writer.close()
        reader = await client.open_unfenced(writer.ledger)
        old = cluster.named(metadata.segments[0].members[0])
        new = next(bookie for bookie in cluster.bookies if bookie is not old)
        new.ledgers[writer.ledger] = old.ledgers.pop(writer.ledger)
        store = client._store
        found, version = await store.read(writer.ledger)
        await store.swap(writer.ledger, found.with_ensemble(0, (new.name,)), version)
        assert await reader.read(0, 0, max_bytes=1) == [b"0"]

    played(2, test)


def test_a_recovery_without_enough_bookies_fails_and_a_later_one_succeeds():
    async def test(cluster: BookieCluster) -> None:
        client = await cluster.client()
        writer = await client.create(ALL, Reports())
        await writer.add(b"0")
        for bookie in cluster.bookies[:2]:
            await bookie.stop()
        with pytest.raises(RecoveryError, match="did not answer"):
            await client.recover(writer.ledger)
        with pytest.raises(UnreadableEntryError, match="the last entry of the ledger is unknown"):
            await client.open_unfenced(writer.ledger)
        assert (await client.metadata(writer.ledger)).state is LedgerState.IN_RECOVERY
        await cluster.bookies[0].start()
        assert (await client.recover(writer.ledger)).last_entry == 0

    played(3, test)


def test_a_wrong_password_changes_nothing():
    async def test(cluster: BookieCluster) -> None:
        client = await cluster.client()
        writer = await client.create(LedgerShape(1, 1, 1, password=b"right"), Reports())
        for opening in (client.recover, client.open_unfenced):
            with pytest.raises(WrongPasswordError, match="another password"):
                await opening(writer.ledger, password=b"wrong")
        await writer.add(b"0")
        assert cluster.bookies[0].requests[Operation.READ] == 0

    played(1, test)


def test_bookies_that_refuse_are_failures():
    async def test(cluster: BookieCluster) -> None:
        client = await cluster.client()
        writer = await client.create(LedgerShape(1, 1, 1), Reports())
        refusing = cluster.named(writer.metadata.last_segment.members[0])
        refusing.code = Code.READ_ONLY
        await writer.add(b"0")
        assert refusing.name not in writer.metadata.last_segment.members

    played(2, test)


def test_a_deleted_ledger_is_gone_and_deleting_it_again_is_no_error():
    async def test(cluster: BookieCluster) -> None:
        client = await cluster.client()
        writer = await client.create(LedgerShape(1, 1, 1), Reports())
        await writer.close()
        await client.delete(writer.ledger)
        await client.delete(writer.ledger)
        with pytest.raises(NoSuchLedgerError, match=f"ledger {writer.ledger} has no key"):
            await client.recover(writer.ledger)

    played(1, test)


def test_too_few_bookies_are_told_before_anything_is_written():
    async def test(cluster: BookieCluster) -> None:
        client = await cluster.client()
        with pytest.raises(TooFewBookiesError, match="needs 3 writable bookies, and there are 2"):
            await client.create(ALL, Reports())
        assert await cluster.store.children("/ledgers") == ["INSTANCEID", "available"]

    played(2, test)


def test_bookies_come_and_go_and_read_only_ones_are_not_chosen():
    async def test(cluster: BookieCluster) -> None:
        client = await cluster.client()
        one, two = sorted(bookie.name for bookie in cluster.bookies)
        assert client.registry.writable == (one, two)
        changed = asyncio.Event()
        cluster.store.add_listener(lambda _: changed.set())
        await cluster.store.delete(f"/ledgers/available/{one}")
        await cluster.store.put(f"/ledgers/available/readonly/{one}", b"")
        await cluster.store.put("/bookies", b'{"default": {"%s": {"rack": "/r1"}}}' % two.encode())
        while client.registry.placed.racks != {two: "/r1"} or client.registry.read_only != (one,):
            await changed.wait()
            await asyncio.sleep(0)
        assert client.registry.writable == (two,)

    played(2, test)


def test_a_foreign_or_missing_cluster_is_refused():
    async def test(cluster: BookieCluster) -> None:
        client = await cluster.client()
        assert client.instance_id == "7b2f6a4e"
        await cluster.store.put("/ledgers/idgen-long", b"")
        with pytest.raises(ClusterLayoutError, match="63 bits"):
            await client.create(LedgerShape(1, 1, 1), Reports())
        await cluster.store.put("/ledgers/LAYOUT", b"1\nflat:1")
        with pytest.raises(ClusterLayoutError, match="this client supports only the layouts"):
            await cluster.client()
        await cluster.store.delete("/ledgers/INSTANCEID")
        with pytest.raises(ClusterLayoutError, match="no cluster of bookies was initialized"):
            await cluster.client()

    played(1, test)


def test_closing_the_client_leaves_ledgers_open_and_fails_what_is_not_confirmed():
    async def test(cluster: BookieCluster) -> None:
        client = await cluster.client()
        reports = Reports()
        writer = await client.create(LedgerShape(1, 1, 1), reports)
        await writer.add(b"0")
        cluster.bookies[0].is_mute = True
        waiting = asyncio.ensure_future(writer.add(b"1"))
        await asyncio.sleep(0)
        await client.close()
        with pytest.raises(WriterClosedError, match="the client was closed"):
            await waiting
        cluster.bookies[0].is_mute = False
        other = await cluster.client()
        assert (await other.recover(writer.ledger)).last_entry >= 0
        assert reports.last == 0
        with pytest.raises(WriterClosedError):
            writer.append(b"2")

    played(1, test)


def test_requests_that_wait_for_a_connection_are_bounded():
    async def test(cluster: BookieCluster) -> None:
        client = await cluster.client(max_unsent_bytes=100)
        reports = Reports()
        writer = await client.create(LedgerShape(1, 1, 1), reports)
        writer.append(bytes(99))
        writer.append(b"too much")
        with pytest.raises(TooFewBookiesError):
            await writer.add(b"1")
        assert (await writer.close()).last_entry == reports.last

    played(1, test)


def test_a_store_that_is_closed_ends_what_waits_for_it():
    async def test(cluster: BookieCluster) -> None:
        client = await cluster.client()
        writer = await client.create(LedgerShape(1, 1, 1), Reports())
        await writer.add(b"0")
        await cluster.store.close()
        with pytest.raises(BookKeeperError, match="the metadata store was closed"):
            await writer.close()

    played(1, test)


def test_appends_wait_for_room():
    async def test(cluster: BookieCluster) -> None:
        client = await cluster.client(max_unconfirmed_bytes=10)
        writer = await client.create(LedgerShape(1, 1, 1), Reports())
        adds = [asyncio.ensure_future(writer.add(bytes(6))) for _ in range(9)]
        most = 0
        while not all(add.done() for add in adds):
            most = max(most, client._room.taken)
            await asyncio.sleep(0)
        assert [add.result() for add in adds] == list(range(9))
        assert (most, client._room.taken) == (12, 0)

    played(1, test)


def test_a_caller_that_gives_up_does_not_keep_the_others_waiting():
    async def test() -> None:
        room = Room(1)
        room.take(1)
        first, second = asyncio.ensure_future(room.wait()), asyncio.ensure_future(room.wait())
        await asyncio.sleep(0)
        room.give(1)
        first.cancel()
        await second

    asyncio.run(asyncio.wait_for(test(), 5))


def test_the_largest_entry_is_taken_and_a_larger_one_refused():
    async def test(cluster: BookieCluster) -> None:
        client = await cluster.client(max_frame_bytes=1024)
        writer = await client.create(LedgerShape(1, 1, 1), Reports())
        with pytest.raises(EntryTooLargeError, match="965 bytes is larger than the 964 bytes"):
            await writer.add(bytes(965))
        assert await writer.add(bytes(964)) == 0

    played(1, test)


def test_settings_that_do_not_fit_are_refused():
    with pytest.raises(InvalidQuorumError, match="ensemble size 2, write quorum 3 and ack quorum 1 do not fit"):
        LedgerShape(2, 3, 1)
    with pytest.raises(ValueError, match="DUMMY does not detect damaged entries"):
        LedgerShape(digest_type=DigestType.DUMMY)
    with pytest.raises(ValueError, match=r"timeout_s is 0, expected at least 0\.1"):
        ClientSettings(timeout_s=0)
