"""The marker of an unfinished deletion: its tenant, and how far it got. The marker keeps the pipeline from starting.

pipeline/deletion/plan.json    what is deleted; written first
pipeline/deletion/ready        the new states are complete, see `states`; from then on files are rewritten
"""

import msgspec

from pulsar_barycenter.pipeline.storage.files import Storage
from pulsar_barycenter.pipeline.storage.layout import DELETION
from pulsar_barycenter.pipeline.tables.table_log import TableFormat

_PLAN = f"{DELETION}/plan.json"
_READY = f"{DELETION}/ready"


class Plan(msgspec.Struct, frozen=True, rename="camel"):
    """The plan of a deletion of a tenant's data, which is kept in a file until the deletion is complete.

    `table_format` is the format of the tables before the deletion. If it is Delta, the deletion removes the Delta logs,
    and creates them again in the end.
    """

    tenant: str
    table_format: TableFormat


class UnfinishedDeletionError(OSError):
    """The deletion of a tenant's data was interrupted. It must be finished before the pipeline may start."""


def read_plan(storage: Storage) -> Plan | None:
    """Return the plan of a deletion that has begun and is not complete; None if there is none."""
    try:
        return msgspec.json.decode(storage.read(_PLAN), type=Plan)
    except FileNotFoundError:
        return None


def write_plan(storage: Storage, plan: Plan) -> None:
    storage.write(_PLAN, msgspec.json.encode(plan))


def is_ready(storage: Storage) -> bool:
    """Return whether the first part of a deletion is complete: copies of all stored states of the pipeline, without the
    tenant's data, are written. These will replace the states.
    """
    return storage.exists(_READY)


def mark_ready(storage: Storage) -> None:
    storage.write(_READY, b"")


def refuse_unfinished(storage: Storage) -> None:
    """Check that no deletion of a tenant's data is incomplete.

    Raises:
        UnfinishedDeletionError: a deletion was interrupted; the text says how to finish it.
    """
    plan = read_plan(storage)
    if plan is not None:
        data = storage.address()
        raise UnfinishedDeletionError(
            f"the deletion of the data of tenant {plan.tenant} from {data} was interrupted. Finish it with"
            f" `barycenter pipeline delete-tenant {plan.tenant} --data {data}`"
        )
