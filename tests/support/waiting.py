"""Waits in tests for what other threads and processes do and do not report."""

import threading
import time
from collections.abc import Callable
from typing import Final

_LOOK_AGAIN_S: Final = 0.02


def until(holds: Callable[[], bool], what: str, *, within_s: float = 60.0, every_s: float = _LOOK_AGAIN_S) -> None:
    """Call `holds` every `every_s` seconds until it is true; fail naming `what` if it is not within `within_s`."""
    pause = threading.Event()
    deadline_s = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < deadline_s, f"not within {within_s:g} s: {what}"
        pause.wait(every_s)
