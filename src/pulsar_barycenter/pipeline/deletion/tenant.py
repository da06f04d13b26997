"""Deletes a tenant's data, step by step. Each step can run again after a kill.

1. Write the plan, which keeps the pipeline from starting. 2. Write the new states to a separate folder, and record that
they are complete. Nothing else has changed so far. 3. Rewrite tables, reports, decision logs and the rest. A rewritten
file has nothing more to delete, so a second run
   finds only what is left.
4. Replace the states by the new ones. Create the logs of Delta tables again, without older versions. Delete the plan.
"""

from collections.abc import Callable

import msgspec

from pulsar_barycenter.pipeline.deletion.marker import Plan, is_ready, mark_ready, read_plan, write_plan
from pulsar_barycenter.pipeline.deletion.names import TenantNames
from pulsar_barycenter.pipeline.deletion.states import make_states, put_in_place
from pulsar_barycenter.pipeline.deletion.tables import delete_rows
from pulsar_barycenter.pipeline.deletion.text_files import (
    Line,
    clean_publication,
    decision_line,
    files_below,
    refused_line,
    report_line,
    rewrite_lines,
)
from pulsar_barycenter.pipeline.storage.files import LocalStorage
from pulsar_barycenter.pipeline.storage.layout import (
    ARCHIVE,
    DECISIONS,
    DELETION,
    QUARANTINE,
    REPORT_LOG,
    SHARDS,
    STATUS,
)
from pulsar_barycenter.pipeline.stream.state import StateFolder
from pulsar_barycenter.pipeline.tables.files import Tables
from pulsar_barycenter.pipeline.tables.formats import delete_logs, format_of, open_log
from pulsar_barycenter.pipeline.tables.schemas import TABLES
from pulsar_barycenter.pipeline.tables.table_log import TableFormat


class DeletedData(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """What one call of `delete_tenant` deleted. `rows` is the number of rows by table. `published_bundles` is the
    number of bundles removed from the pipeline's publication. `states` is the number of stored states after the
    deletion. The other values are numbers of changed files.
    """

    tenant: str
    rows: dict[str, int]
    reports: int
    archived_reports: int
    decision_logs: int
    quarantined: int
    published_bundles: int
    states: int


class OtherDeletionError(OSError):
    """The deletion of another tenant's data was interrupted. It must be finished before this deletion can begin."""


def delete_tenant(storage: LocalStorage, tenant: str, *, clock_ms: Callable[[], int]) -> DeletedData:
    """Delete all data of a tenant in the data directory. The caller must be inside `exclusive(storage)`, so that no
    pipeline runs. If a previous deletion of the same tenant was interrupted, this call finishes it.

    Raises:
        OtherDeletionError: the deletion of another tenant's data is incomplete; nothing has changed.
        TableFormatError: the tables are Delta, and deltalake is not installed; nothing has changed.
        DamagedTableError, DamagedStateError: a file cannot be read. The deletion is incomplete: call again.
        OSError: the file system refuses an operation. The deletion is incomplete: call again.
    """
    plan = read_plan(storage) or Plan(tenant, format_of(storage))
    if plan.tenant != tenant:
        raise OtherDeletionError(
            f"the deletion of the data of tenant {plan.tenant} was interrupted. Finish it first with `barycenter"
            f" pipeline delete-tenant {plan.tenant} --data {storage.address()}`"
        )
    if plan.table_format is TableFormat.DELTA:
        open_log(storage, plan.table_format, clock_ms=clock_ms)  # fails before anything changes
    write_plan(storage, plan)
    names = TenantNames(tenant)
    if not is_ready(storage):
        make_states(storage, names)
        mark_ready(storage)
    deleted = DeletedData(
        tenant=tenant,
        rows={name: delete_rows(storage, name, names) for name in TABLES},
        reports=_rewritten(storage, REPORT_LOG, names, report_line),
        archived_reports=_rewritten(storage, ARCHIVE, names, report_line),
        decision_logs=_rewritten(storage, DECISIONS, names, decision_line),
        quarantined=_rewritten(storage, QUARANTINE, names, refused_line),
        published_bundles=clean_publication(storage, names),
        states=put_in_place(storage),
    )
    for entry in storage.entries(SHARDS):  # copies of states and samples, which the pipeline writes again
        storage.delete(f"{SHARDS}/{entry.name}")
    if storage.exists(STATUS):
        rewrite_lines(storage, STATUS, names, report_line)
    delete_logs(storage)
    completed = StateFolder(storage).batch_ids()
    table_log = open_log(storage, plan.table_format, clock_ms=clock_ms)
    Tables(storage, table_log).clear_unfinished(completed[-1] if completed else None)
    storage.delete(DELETION)
    return deleted


def _rewritten(storage: LocalStorage, folder: str, names: TenantNames, line: Line) -> int:
    return sum(rewrite_lines(storage, path, names, line) for path in files_below(storage, folder))
