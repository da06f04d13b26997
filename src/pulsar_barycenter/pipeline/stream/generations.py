"""Generations of Spark's record of the files it read.

Spark's file source writes down every file it ever read and copies the whole list every few batches, so its cost grows
with history. After many reports the job therefore stops the query when it is idle and starts it with an empty record
under `checkpoint/from-<first batch id>`. Files that are still in the log are read once more and dropped by their
sequences. Batch ids go on: the id of a batch is the generation's first one plus Spark's own.

A batch that Spark's stream does not make, of a `backlog`, has an id before the generation that follows it, which begins
before the batch is folded. So no id is used twice, whenever the process is killed.
"""

from pulsar_barycenter.pipeline.storage.files import Storage
from pulsar_barycenter.pipeline.storage.layout import CHECKPOINTS
from pulsar_barycenter.pipeline.stream.state import StateFolder
from pulsar_barycenter.pipeline.tables.files import Tables

_GENERATION = "from-"


def current_generation(storage: Storage) -> tuple[str, int]:
    """Return the address of the newest checkpoint and the id of its first batch.

    A new one follows all states and tables kept.
    """
    generations = _generations(storage)
    if not generations:
        kept = [*StateFolder(storage).batch_ids(), *Tables(storage).newest_batches()]
        return begin_generation(storage, max(kept) + 1 if kept else 0)
    return storage.address(_generation(generations[-1])), generations[-1]


def begin_own_batch(storage: Storage) -> int:
    """Return the id of a batch that is not Spark's, and have Spark's follow it with an empty record of files.

    Nothing is known then of the batch that Spark had begun: what was written of it must be cleared before.
    """
    _, first = current_generation(storage)
    batch_id = max([first, *(kept + 1 for kept in StateFolder(storage).batch_ids())])
    begin_generation(storage, batch_id + 1)
    return batch_id


def begin_generation(storage: Storage, first_batch: int) -> tuple[str, int]:
    """Make the checkpoint folder whose first batch is `first_batch`, and remove the earlier ones."""
    storage.make_folder(_generation(first_batch))
    for first in _generations(storage):
        if first < first_batch:
            storage.delete(_generation(first))
    return storage.address(_generation(first_batch)), first_batch


def _generation(first_batch: int) -> str:
    return f"{CHECKPOINTS}/{_GENERATION}{first_batch:012d}"


def _generations(storage: Storage) -> list[int]:
    """The first batches of the checkpoints, ascending."""
    names = (entry.name for entry in storage.entries(CHECKPOINTS))
    return sorted(int(name.removeprefix(_GENERATION)) for name in names if name.startswith(_GENERATION))
