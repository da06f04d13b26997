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
    """Return the full path or URL of the checkpoint (Spark's record of the files that it has read) that is in use, and
    the id of the first batch that uses it.

    If there is no checkpoint, create an empty one. Its first batch gets an id greater than those of all stored states
    and tables.
    """
    generations = _generations(storage)
    if not generations:
        kept = [*StateFolder(storage).batch_ids(), *Tables(storage).newest_batches()]
        return begin_generation(storage, max(kept) + 1 if kept else 0)
    return storage.address(_generation(generations[-1])), generations[-1]


def begin_own_batch(storage: Storage) -> int:
    """Return the id for the next batch, which is read without Spark's stream because too many files waited. Create a
    new checkpoint (an empty record of the files that Spark has read) for the batches after it.

    A batch that Spark had begun will not run again. Its files in the tables must be deleted: the caller calls
    `Tables.clear_unfinished` before this function.
    """
    _, first = current_generation(storage)
    batch_id = max([first, *(kept + 1 for kept in StateFolder(storage).batch_ids())])
    begin_generation(storage, batch_id + 1)
    return batch_id


def begin_generation(storage: Storage, first_batch: int) -> tuple[str, int]:
    """Create an empty checkpoint folder for the batches with the ids from `first_batch` on, and delete all earlier
    checkpoints. A folder that exists already is kept.

    Return the full path or URL of the folder, and `first_batch`.
    """
    storage.make_folder(_generation(first_batch))
    for first in _generations(storage):
        if first < first_batch:
            storage.delete(_generation(first))
    return storage.address(_generation(first_batch)), first_batch


def _generation(first_batch: int) -> str:
    return f"{CHECKPOINTS}/{_GENERATION}{first_batch:012d}"


def _generations(storage: Storage) -> list[int]:
    """Return the id of the first batch of each checkpoint that exists, ascending."""
    names = (entry.name for entry in storage.entries(CHECKPOINTS))
    return sorted(int(name.removeprefix(_GENERATION)) for name in names if name.startswith(_GENERATION))
