"""Generations: Spark's records of the files that it read (its checkpoints), one after another.

Spark's file source records every file that it read, and copies the whole list every few batches, so its cost grows with
the history. After many reports the job therefore stops the query while it is idle, and starts it with an empty record
under `checkpoint/from-<first batch id>`: a new generation. Files that are still in the log are read again, and their
reports are dropped as copies. Batch ids continue: the id of a batch is the first id of its generation plus Spark's id.

A batch of a `backlog` is not made by Spark's stream. Before it is folded, a new generation begins with the id after it.
So no id is used twice, whenever the process is killed.
"""

from pulsar_barycenter.pipeline.storage.files import Storage
from pulsar_barycenter.pipeline.storage.layout import CHECKPOINTS
from pulsar_barycenter.pipeline.stream.state import StateFolder
from pulsar_barycenter.pipeline.tables.files import Tables

_GENERATION = "from-"


def current_generation(storage: Storage) -> tuple[str, int]:
    """Return the full path or URL of the newest checkpoint, and the id of its first batch.

    Without a checkpoint a new generation begins, after the batches of all states and tables.
    """
    generations = _generations(storage)
    if not generations:
        kept = [*StateFolder(storage).batch_ids(), *Tables(storage).newest_batches()]
        return begin_generation(storage, max(kept) + 1 if kept else 0)
    return storage.address(_generation(generations[-1])), generations[-1]


def begin_own_batch(storage: Storage) -> int:
    """Return the id for a batch that is not from Spark's stream (a backlog), and begin a new generation (checkpoint)
    for the batches after it.

    If Spark had begun a batch, the new generation drops it: the caller must delete the files that this batch wrote into
    the tables (`Tables.clear_unfinished`) before this call.
    """
    _, first = current_generation(storage)
    batch_id = max([first, *(kept + 1 for kept in StateFolder(storage).batch_ids())])
    begin_generation(storage, batch_id + 1)
    return batch_id


def begin_generation(storage: Storage, first_batch: int) -> tuple[str, int]:
    """Create the checkpoint folder for batches from `first_batch` on, and delete the earlier ones.

    Returns its full path or URL, and `first_batch`.
    """
    storage.make_folder(_generation(first_batch))
    for first in _generations(storage):
        if first < first_batch:
            storage.delete(_generation(first))
    return storage.address(_generation(first_batch)), first_batch


def _generation(first_batch: int) -> str:
    return f"{CHECKPOINTS}/{_GENERATION}{first_batch:012d}"


def _generations(storage: Storage) -> list[int]:
    """Return the id of the first batch of each generation (checkpoint), ascending."""
    names = (entry.name for entry in storage.entries(CHECKPOINTS))
    return sorted(int(name.removeprefix(_GENERATION)) for name in names if name.startswith(_GENERATION))
