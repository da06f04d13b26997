"""The sequence of a migration: asks what prevents it, takes the ids, copies, compares, and switches the cluster."""

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Final

from pulsar_barycenter.bookkeeper.client.client_settings import LedgerShape
from pulsar_barycenter.bookkeeper.client.ledger_client import LedgerClient
from pulsar_barycenter.bookkeeper.errors import NoSuchLedgerError
from pulsar_barycenter.bookkeeper.metadata.ledger_metadata import LedgerMetadata
from pulsar_barycenter.ledger.bookie_inspection import compare, delete_unlisted
from pulsar_barycenter.ledger.bookkeeper_storage.bookkeeper_storage import shortage_of
from pulsar_barycenter.ledger.bookkeeper_storage.storage_errors import ledger_errors
from pulsar_barycenter.ledger.errors import LedgerError
from pulsar_barycenter.ledger.folder_identity import FOLDER_KEY, bookies_value, identity_of
from pulsar_barycenter.ledger.inspection import ListedLedger, listed_ledgers, named_ledgers, unlisted_files
from pulsar_barycenter.ledger.managed.records import read_list_with_epoch
from pulsar_barycenter.ledger.migration.copying import LedgerCopier
from pulsar_barycenter.ledger.migration.planning import (
    RECORDS,
    Phase,
    Refusal,
    SourceLedger,
    StoredNames,
    phase_of,
    refusals_of_ids,
)
from pulsar_barycenter.ledger.migration.progress import REQUESTS_AT_ONCE, Progress, draw_up_to
from pulsar_barycenter.ledger.migration.source_files import examined
from pulsar_barycenter.ledger.migration.stores import Stores
from pulsar_barycenter.ledger.migration_marks import (
    MIGRATION_KEY,
    UnfinishedMigration,
    encode_migration,
    mark_migrated,
    migrated_to,
    unfinished_migration,
)
from pulsar_barycenter.metadata.errors import BadVersionError, NotFoundError
from pulsar_barycenter.metadata.store import MUST_NOT_EXIST, Record

_LEDGERS_AT_ONCE: Final = 8


@dataclass(frozen=True, slots=True)
class Plan:
    """What a migration has to do, and the reasons for which it cannot be done (`refusals`).

    `stored` is the record at FOLDER_KEY (the key that names the storage of the messages) in the present store. `listed`
    are the ledgers in the lists of all topics. `ledgers` are those ledgers among them that have to be copied. `named`
    are all ids in the lists of topics, including those of ledgers that are being deleted. `unlisted` are the paths of
    files that belong to no topic; they are not copied.
    """

    phase: Phase
    stored: Record
    unfinished: UnfinishedMigration | None
    listed: Sequence[ListedLedger] = ()
    ledgers: Sequence[SourceLedger] = ()
    named: frozenset[int] = frozenset()
    unlisted: Sequence[str] = ()
    refusals: Sequence[Refusal] = ()


class Migration:
    """The migration of messages from the folder of ledgers `folder` to the bookies of `client`. The caller has locked
    the folder, so that no broker uses it.

    `check_stopped` is a function that raises a LedgerError if a broker runs that uses one of the metadata stores.
    """

    def __init__(
        self,
        stores: Stores,
        folder: str,
        client: LedgerClient,
        shape: LedgerShape,
        *,
        check_stopped: Callable[[], Awaitable[None]],
        progress: Progress,
    ) -> None:
        self._stores = stores
        self._folder = folder
        self._client = client
        self._shape = shape
        self._check_stopped = check_stopped
        self._progress = progress

    async def plan(self) -> Plan:
        """Read all records and files. Return what the migration has to do, and the reasons for which it cannot be done.
        Changes nothing.

        Raises:
            LedgerError: brokers run, or the folder, the store and the bookies do not belong together.
            MetadataError: a store did not answer, or a record cannot be decoded.
        """
        identity = await asyncio.to_thread(identity_of, self._folder)
        stored = await self._stores.present.get(FOLDER_KEY)
        after = await self._stores.next.get(FOLDER_KEY)
        if identity is None or stored is None:
            raise LedgerError(
                f"{self._folder} or the metadata store does not have the identity of the folder yet: start a broker of"
                " this release with both, stop the broker, and run this command again"
            )
        unfinished = await unfinished_migration(self._stores.next)
        mark = migrated_to(self._folder)
        names = StoredNames(stored.value, b"" if after is None else after.value)
        phase = phase_of(identity, self._client.instance_id, names, unfinished, mark)
        if phase in (Phase.SWITCHED, Phase.DONE):
            return Plan(phase, stored, unfinished)
        await self._check_stopped()
        listed = await self._listed()
        named = frozenset(await named_ledgers(self._stores.present, read_list_with_epoch))
        cluster = "" if unfinished is None else unfinished.cluster
        reasons = [shortage_of(self._client, self._shape)]
        if phase is Phase.NEW:
            reasons.append(await self._stores.refusal())
        refusals = [Refusal(reason) for reason in reasons if reason]
        refusals += refusals_of_ids(named, await self._on_bookies(named), cluster)
        ledgers = []
        max_entry_bytes = self._client.max_data_bytes(self._shape)
        in_use = [ledger for ledger in listed if ledger.in_use]
        with closing(self._progress(in_use, "reading ledgers")) as left:
            for ledger in left:
                found = await asyncio.to_thread(examined, self._folder, ledger, max_entry_bytes)
                if isinstance(found, Refusal):
                    refusals.append(found)
                else:
                    ledgers.append(found)
        return Plan(
            phase,
            stored,
            unfinished,
            listed,
            ledgers,
            named,
            list(unlisted_files(self._folder, set(named))),
            refusals,
        )

    async def carry_out(self, plan: Plan) -> int:
        """Do the migration as in `plan`, the result of `Migration.plan`, which must have no refusals. Return the number
        of ledgers to which this call wrote entries. If it is interrupted, at any point, the caller makes a new plan and
        calls this again with it; the migration then continues.

        Raises:
            LedgerError: a ledger cannot be copied, or the lists of topics or a metadata store have changed since the
                plan was made. The brokers can continue on the files.
            MetadataError: a store did not answer.
        """
        written = 0
        unfinished = plan.unfinished
        if plan.phase in (Phase.NEW, Phase.UNFINISHED):
            if unfinished is None:
                unfinished = await self._begin()
            await self._stores.copy()
            await self._take_ids(max(plan.named, default=0))
            await self._check_ids(plan, unfinished.cluster)
            written = await self._copy(plan.ledgers, unfinished.cluster)
            await self._check_all(plan, unfinished.cluster)
            await self._switch(plan, unfinished)
        if unfinished is not None:
            await self._end(unfinished)
        return written

    async def _listed(self) -> list[ListedLedger]:
        return [ledger async for ledger in listed_ledgers(self._stores.present, read_list_with_epoch)]

    async def _on_bookies(self, named: frozenset[int]) -> dict[int, LedgerMetadata]:
        """Return the metadata of those ledgers in `named` that exist on the bookies, by id."""
        wanted = [ledger async for ledger in self._client.ids() if ledger in named]
        found: dict[int, LedgerMetadata] = {}
        for at in range(0, len(wanted), REQUESTS_AT_ONCE):
            await asyncio.gather(*(self._read(ledger, found) for ledger in wanted[at : at + REQUESTS_AT_ONCE]))
        return found

    async def _read(self, ledger: int, found: dict[int, LedgerMetadata]) -> None:
        with ledger_errors(ledger):
            try:
                found[ledger] = await self._client.metadata(ledger)
            except NoSuchLedgerError:
                return

    async def _begin(self) -> UnfinishedMigration:
        identity = identity_of(self._folder)
        assert identity is not None, "plan has read it"
        begun = UnfinishedMigration(identity, self._client.instance_id, uuid.uuid4().hex)
        try:
            await self._stores.next.put(MIGRATION_KEY, encode_migration(begun), expected_version=MUST_NOT_EXIST)
        except BadVersionError:
            raise LedgerError(
                "another migration of this cluster has begun at the same time: wait until that migration has ended"
            ) from None
        return begun

    async def _take_ids(self, last: int) -> None:
        """Draw ids from the bookies' counter of ledger ids until an id is `last` or higher. After that, no program gets
        one of these ids for a new ledger.
        """
        with ledger_errors(-1):
            await draw_up_to(last, self._client.new_id, self._progress, "taking ids of ledgers")

    async def _check_ids(self, plan: Plan, cluster: str) -> None:
        """Check that no other program has created a ledger on the bookies with an id of this cluster, between the plan
        and the moment at which `_take_ids` had drawn these ids.

        Raises:
            LedgerError: another program has created such a ledger.
        """
        for refusal in refusals_of_ids(plan.named, await self._on_bookies(plan.named), cluster):
            raise LedgerError(refusal.reason)

    async def _copy(self, ledgers: Sequence[SourceLedger], cluster: str) -> int:
        copier = LedgerCopier(self._client, self._shape, cluster)
        with closing(self._progress(ledgers, "copying ledgers")) as left:

            async def work() -> int:
                return sum([await copier.copy(ledger) for ledger in left])

            workers = [asyncio.ensure_future(work()) for _ in range(_LEDGERS_AT_ONCE)]
            try:
                return sum(await asyncio.gather(*workers))
            finally:
                for worker in workers:
                    worker.cancel()
                await asyncio.gather(*workers, return_exceptions=True)

    async def _check_all(self, plan: Plan, cluster: str) -> None:
        """Check that the lists of topics have not changed since the plan was made, that no broker runs, that the
        metadata stores have equal keys, and that the bookies have each ledger of these lists. Then delete those ledgers
        on the bookies that an earlier attempt has copied and that no topic lists any more.

        Raises:
            LedgerError: one of the checks failed; nothing was deleted.
        """
        await self._check_stopped()
        if await self._listed() != list(plan.listed):
            raise LedgerError("the lists of topics have changed since this command read them: run this command again")
        await self._stores.check()
        found = await compare(self._stores.next, self._client, cluster, read_list_with_epoch)
        for lacking in found.lacking:
            raise LedgerError(
                f"{lacking.topic}: ledger {lacking.ledger} is not as expected on the bookies: {lacking.detail}"
            )
        await delete_unlisted(self._stores.next, self._client, found.unlisted, read_list_with_epoch)

    async def _switch(self, plan: Plan, unfinished: UnfinishedMigration) -> None:
        value = bookies_value(RECORDS, unfinished.bookies, unfinished.cluster)
        await self._stores.switch(plan.stored, value)

    async def _end(self, unfinished: UnfinishedMigration) -> None:
        where = bookies_value(RECORDS, unfinished.bookies, unfinished.cluster).decode()
        await asyncio.to_thread(mark_migrated, self._folder, where)
        try:
            await self._stores.next.delete(MIGRATION_KEY)
        except NotFoundError:
            return
