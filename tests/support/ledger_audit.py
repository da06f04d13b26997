"""Checks all ledgers of a cluster on bookies whose brokers have stopped: by our client, and by BookKeeper's shell."""

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pulsar_barycenter.bookkeeper.client.ledger_client import LedgerClient
from pulsar_barycenter.bookkeeper.metadata.ledger_metadata import LedgerState
from pulsar_barycenter.bookkeeper.metadata.ledger_paths import DEFAULT_ROOT, Layout, ledger_path
from pulsar_barycenter.ledger.bookie_inspection import compare
from pulsar_barycenter.ledger.folder_identity import bookie_user
from pulsar_barycenter.ledger.inspection import ListedLedger, listed_ledgers
from pulsar_barycenter.ledger.pulsar_records.list_readers import list_reader
from pulsar_barycenter.metadata.store import MetadataStore

_AT_ONCE: Final = 8
_READ_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class LedgerAudit:
    """`listed` ledgers are in the lists of topics and have `entries` entries in total, all of which were read. Of these
    ledgers, `recovered` were not closed.

    `unlisted` has the ids of the ledgers that no topic lists, with the times of their creation, in ms since 1970.
    """

    listed: int
    entries: int
    recovered: int
    unlisted: dict[int, int]


async def audited_ledgers(store: MetadataStore, client: LedgerClient, shell: Callable[[str], str]) -> LedgerAudit:
    """Read every entry of every ledger in the lists of topics: without recovery if the ledger is closed, else after
    recovery. Check that each ledger has as many entries as its list says, and that BookKeeper's shell lists the ledgers
    that the metadata has, and no other ones.

    `store` is that of both brokers and bookies. `shell` runs one command of BookKeeper's shell and returns its output.

    Raises:
        AssertionError: something of this does not hold.
        BookKeeperError, LedgerError, MetadataError: a ledger cannot be read, or a store did not answer.
    """
    user = await bookie_user(store, client.instance_id)
    report = await compare(store, client, user.cluster, list_reader(user.records))
    assert not report.lacking, report.lacking
    assert not report.unreadable, report.unreadable
    assert not report.others, f"{report.others} of the ledgers are not of this cluster"
    listed = [ledger async for ledger in listed_ledgers(store, list_reader(user.records))]
    turns = asyncio.Semaphore(_AT_ONCE)
    read = await asyncio.gather(*(_read_whole(client, ledger, turns) for ledger in listed))
    told = await asyncio.to_thread(shell, "listledgers")
    by_shell = {int(found) for found in re.findall(r"ledgerID: (\d+)", told)}
    stored = {ledger async for ledger in client.ids()}
    assert by_shell == stored, f"BookKeeper's shell: {told[:2000]}; our client: {sorted(stored)}"
    unlisted = {}
    for ledger in report.unlisted:
        found = await store.get(ledger_path(DEFAULT_ROOT, Layout.HIERARCHICAL, ledger))
        assert found is not None, ledger
        unlisted[ledger] = found.stat.created_at_ms
    return LedgerAudit(len(listed), sum(count for count, _ in read), sum(was_open for _, was_open in read), unlisted)


async def _read_whole(client: LedgerClient, listed: ListedLedger, turns: asyncio.Semaphore) -> tuple[int, bool]:
    """Read all entries of a ledger; return their number, and whether the ledger had to be recovered."""
    ledger = listed.record.ledger_id
    async with turns:
        metadata = await client.metadata(ledger)
        is_closed = metadata.state is LedgerState.CLOSED
        opened = await (client.open_unfenced if is_closed else client.recover)(ledger, password=metadata.password)
        count = opened.last_entry + 1
        assert listed.entries is None or count >= listed.entries, (ledger, count, listed.record)
        entry = 0
        while entry < count:
            entry += len(await opened.read(entry, opened.last_entry, max_bytes=_READ_BYTES))
        return count, not is_closed
