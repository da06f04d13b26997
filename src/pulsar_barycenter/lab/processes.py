"""Processes of this machine that run scenarios, and end when the command does, however it ends."""

import os
import threading
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context, parent_process


@contextmanager
def pool_of(count: int) -> Iterator[ProcessPoolExecutor]:
    """Give so many processes of their own, which hold nothing of this one: threads of Arrow do not outlive a fork."""
    pool = ProcessPoolExecutor(count, mp_context=get_context("spawn"), initializer=_end_with_parent)
    try:
        yield pool
    finally:
        # not waited for: on Ctrl-C the processes are ended and reaped by `interrupt`, which the pool never gets to know
        pool.shutdown(wait=False, cancel_futures=True)


def _end_with_parent() -> None:
    """Have this process end when the one that started it is killed, and waits for nobody's work any more."""
    parent = parent_process()
    assert parent is not None

    def wait() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=wait, name="parent", daemon=True).start()
