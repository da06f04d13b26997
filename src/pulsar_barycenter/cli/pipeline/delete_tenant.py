"""`barycenter pipeline delete-tenant`: deletes the data of a tenant from tables, logs and archive of a data folder."""

import time

import click
import msgspec

from pulsar_barycenter.cli.failure import fail
from pulsar_barycenter.cli.folders import keep_private
from pulsar_barycenter.cli.formats import with_format
from pulsar_barycenter.cluster_logs.data_folder import WrongFolderError, check_load_folder
from pulsar_barycenter.naming.counted import count_of
from pulsar_barycenter.naming.errors import InvalidNameError
from pulsar_barycenter.naming.namespace import validate_entity_name
from pulsar_barycenter.pipeline.deletion.tenant import DeletedData, delete_tenant
from pulsar_barycenter.pipeline.running.job_options import DataFolder
from pulsar_barycenter.pipeline.storage.files import local_folder
from pulsar_barycenter.pipeline.storage.layout import PipelineLayout
from pulsar_barycenter.pipeline.storage.lock import AlreadyRunningError, exclusive
from pulsar_barycenter.standalone.data_directory import DataDirectory, holder_of
from pulsar_barycenter.terminal.errors import in_words


@click.command(name="delete-tenant")
@click.argument("tenant")
@click.option("--data", required=True, type=DataFolder(exists=True), metavar="DIR", help="Data folder of the cluster.")
@click.option("--yes", is_flag=True, help="Delete without a question.")
@with_format("table", "json", json="one object")
def command(tenant: str, data: str, yes: bool, form: str) -> None:
    """Delete all load data of TENANT in DIR: rows of tables, reports, decisions, states.

    Delete the tenant in the cluster first, else the brokers report it again. Then stop the pipeline and the brokers of
    the folder: a line that a broker appends to its decision log meanwhile could be lost.

    Rows of other tenants that name TENANT, such as a request to delete it, stay, with `(deleted)` in place of the name.
    Averages of whole brokers are not computed again, so `pipeline check` finds differences in older ones. Messages,
    metadata and the audit log are not load data, and stay.

    If a deletion was interrupted, the same command completes it; until then the pipeline does not start.
    """
    folder = local_folder(data)
    if folder is None:
        fail(f"{data} is not a folder on this machine; run the command on the machine that has the folder")
        return
    try:
        validate_entity_name("tenant", tenant)
        check_load_folder(folder, may_be_empty=False)
        holder = holder_of(DataDirectory(folder))
        if holder is not None:
            fail(f"process {holder} runs a cluster on {folder}: stop that cluster first")
            return
        if not yes:
            click.confirm(
                f"Delete all load data of tenant {tenant} in {folder}? It cannot be undone", abort=True, err=True
            )
        keep_private()
        layout = PipelineLayout.of(folder)
        with exclusive(layout, clock_ms=_clock_ms):
            deleted = delete_tenant(layout, tenant, clock_ms=_clock_ms)
    except (AlreadyRunningError, InvalidNameError, OSError, WrongFolderError) as error:
        fail(in_words(error))
        return
    click.echo(msgspec.json.encode(deleted) if form == "json" else "\n".join(_lines(deleted)))


def _clock_ms() -> int:
    return time.time_ns() // 1_000_000


def _lines(deleted: DeletedData) -> list[str]:
    changed = (
        (deleted.reports, "load report"),
        (deleted.archived_reports, "archived report"),
        (deleted.decision_logs, "decision log"),
        (deleted.quarantined, "quarantined file"),
    )
    return [
        f"deleted the load data of tenant {deleted.tenant}:",
        *(f"  {count_of(rows, 'row')} of {name}" for name, rows in deleted.rows.items() if rows),
        *(f"  entries or lines in {count_of(files, noun)}" for files, noun in changed if files),
        f"  {count_of(deleted.published_bundles, 'bundle')} of the publication",
    ]
