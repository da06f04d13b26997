"""Lines at the bottom of a terminal that change in place, while other lines are printed above them.

A thread draws them ten times a second, so that the time shown runs while the program waits. Each line is cut to the
width of the terminal. Only one `LiveLines` may be open on a terminal.
"""

import os
import shutil
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import cycle
from typing import Final, TextIO

from pulsar_barycenter.terminal.cells import cut_to

_DRAW_S: Final = 0.1
_FRAMES: Final = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_PLAIN_FRAMES: Final = "-\\|/"
_ERASE: Final = "\r\x1b[2K"
_UP: Final = "\x1b[1A"
_HIDE_CURSOR: Final = "\x1b[?25l"
_SHOW_CURSOR: Final = "\x1b[?25h"


def is_redrawable(stream: TextIO) -> bool:
    """Return whether lines of a stream can change in place: it is a terminal that moves its cursor."""
    return stream.isatty() and os.environ.get("TERM", "") != "dumb"


def clock(seconds: float) -> str:
    """Return a time as H:MM:SS."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"


class LiveLines:
    """Lines of a terminal that change in place. Methods may be called from any thread; errors when writing to the
    terminal are ignored.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._lines: dict[str, tuple[Callable[[], str], float]] = {}
        self._drawn = 0
        self._lock = threading.Lock()
        self._is_over = threading.Event()
        self._drawer: threading.Thread | None = None
        self._frame = ""
        encoding = (stream.encoding or "").lower().replace("-", "")
        self._frames = cycle(_FRAMES if encoding.startswith("utf") else _PLAIN_FRAMES)

    def show(self, name: str, text: Callable[[], str]) -> None:
        """Show the line `name`, or change it. The line shows the result of `text`, which is called each time the lines
        are drawn, and the time since the first call of `show` for this name.
        """
        with self._lock:
            _, since_s = self._lines.get(name, (text, time.monotonic()))
            self._lines[name] = (text, since_s)
            if self._drawer is None:
                self._is_over.clear()
                self._drawer = threading.Thread(target=self._keep_drawing, name="lines of the terminal", daemon=True)
                self._drawer.start()
            self._draw()

    def remove(self, name: str) -> None:
        """Remove the line `name`, if there is one."""
        with self._lock:
            if self._lines.pop(name, None) is not None:
                self._draw()
        if not self._lines:
            self.close()

    def print(self, text: str) -> None:
        """Print a line above the others."""
        with self._lock:
            self._write(self._erased() + text + "\n")
            self._drawn = 0
            self._draw()

    def close(self) -> None:
        """Remove all lines, and stop drawing. Idempotent; `show` starts drawing again."""
        self._is_over.set()
        drawer, self._drawer = self._drawer, None
        if drawer is not None and drawer is not threading.current_thread():
            drawer.join()
        with self._lock:
            self._lines.clear()
            if drawer is not None:
                self._write(self._erased() + _SHOW_CURSOR)
            self._drawn = 0

    def _keep_drawing(self) -> None:
        while not self._is_over.wait(_DRAW_S):
            with self._lock:
                self._frame = next(self._frames)
                self._draw()

    def _draw(self) -> None:
        width = shutil.get_terminal_size().columns - 1
        now_s = time.monotonic()
        texts = [f"{self._frame or ' '} {text()} {clock(now_s - since_s)}" for text, since_s in self._lines.values()]
        hidden = _HIDE_CURSOR if texts else ""
        self._write(self._erased() + hidden + "\n".join(cut_to(text, width) for text in texts))
        self._drawn = len(texts)

    def _erased(self) -> str:
        return (_ERASE + _UP) * (self._drawn - 1) + _ERASE if self._drawn else ""

    def _write(self, text: str) -> None:
        with suppress(OSError, ValueError):
            self._stream.write(text)
            self._stream.flush()
