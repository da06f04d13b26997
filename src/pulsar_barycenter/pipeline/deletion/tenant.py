"""Delete a tenant's data, step by step; each step may be done again after a kill.

1. Write the plan, which keeps the pipeline from starting.
2. Make the new states beside the old ones, and note that they are complete. Nothing else has changed so far.
3. Rewrite tables, reports, decision logs and the rest. A rewritten file has nothing more to delete, so a second run
   finds what is left.
4. Put the new states in place; make the logs of Delta tables anew, without older versions; delete the plan.
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
    """What one run of a deletion took away: rows by table, numbers of changed files, bundles of the publication."""

    tenant: str
    rows: dict[str, int]
    reports: int
    archived_reports: int
    decision_logs: int
    quarantined: int
    published_bundles: int
    states: int


class OtherDeletionError(OSError):
    """The deletion of another tenant's data was cut short and comes first."""


def delete_tenant(storage: LocalStorage, tenant: str, *, clock_ms: Callable[[], int]) -> DeletedData:
    """Delete all that the data directory holds of a tenant. The caller holds `exclusive(storage)`.

    Raises:
        OtherDeletionError: another tenant's deletion is under way.
        TableFormatError: the tables are Delta, and deltalake is not installed; nothing has changed.
        DamagedTableError, DamagedStateError: a file cannot be read; the deletion is under way.
        OSError: the file system refuses something; likewise.
    """
    plan = read_plan(storage) or Plan(tenant, format_of(storage))
    if plan.tenant != tenant:
        raise OtherDeletionError(
            f"the deletion of the data of tenant {plan.tenant} was cut short and comes first: `barycenter pipeline"
            f" delete-tenant {plan.tenant} --data {storage.address()}`"
        )
    if plan.table_format is TableFormat.DELTA:
        open_log(storage, plan.table_format, clock_ms=clock_ms)  # refused before anything changes
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
    for entry in storage.entries(SHARDS):  # copies of states and samples; a pipeline makes them again
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
