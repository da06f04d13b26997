"""Starts processes that run scenarios, and that end with the command, for whatever reason it ends."""

import os
import threading
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context, parent_process


@contextmanager
def pool_of(count: int) -> Iterator[ProcessPoolExecutor]:
    """Yield a pool of `count` processes; when the block ends, jobs that have not begun are cancelled. The processes are
    spawned and not forked, because Arrow's threads do not survive a fork.
    """
    pool = ProcessPoolExecutor(count, mp_context=get_context("spawn"), initializer=_end_with_parent)
    try:
        yield pool
    finally:
        # do not wait: after Ctrl-C `interrupt` ends and reaps the processes, and the pool does not notice
        pool.shutdown(wait=False, cancel_futures=True)


def _end_with_parent() -> None:
    """Make the operating system end this process when its parent is killed: then no process waits for its results any
    more.
    """
    parent = parent_process()
    assert parent is not None

    def wait() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=wait, name="parent", daemon=True).start()
