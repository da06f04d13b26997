"""Keeps files of any number of ledgers open, but not more than a maximum number at the same time."""

import os
from collections import OrderedDict
from threading import Lock

from pulsar_barycenter.metadata.files.data_faults import identity_of_descriptor


class OpenFile:
    """An open file and its descriptor. `pins` is the number of threads that use it now. If `doomed` is True, the file
    is closed when its last user calls `unpin`.
    """

    __slots__ = ("descriptor", "doomed", "identity", "pins")

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.identity = identity_of_descriptor(descriptor)
        self.pins = 0
        self.doomed = False


class OpenFiles:
    """The open files by path. If more than `max_open` files are open, those that were not used for the longest time are
    closed. Thread-safe.

    A file that is in use (pinned) is not closed, so more than `max_open` files may be open for a short time, at most
    one more for each thread.
    """

    def __init__(self, max_open: int, flags: int) -> None:
        self._max_open = max_open
        self._flags = flags
        self._files: OrderedDict[str, OpenFile] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._files)

    def pin(self, path: str) -> OpenFile:
        """Return the file at `path` for use; open it if it is not open. Call `unpin` after use.

        Raises:
            OSError: the file cannot be opened.
        """
        with self._lock:
            file = self._files.get(path)
            if file is not None:
                file.pins += 1
                self._files.move_to_end(path)
                return file
        return self._add(path, os.open(path, self._flags), pins=1)

    def pin_open(self, path: str) -> OpenFile | None:
        """Return the file at `path` for use if it is open, otherwise None. Call `unpin` after use."""
        with self._lock:
            file = self._files.get(path)
            if file is not None:
                file.pins += 1
            return file

    def adopt(self, path: str, descriptor: int) -> OpenFile:
        """Add a file that the caller has just created and opened, and return it. From now on this object owns
        `descriptor` and closes it. The file does not count as in use: do not call `unpin`.
        """
        return self._add(path, descriptor, pins=0)

    def _add(self, path: str, descriptor: int, *, pins: int) -> OpenFile:
        with self._lock:
            file = self._files.get(path)
            if file is None:
                file = self._files[path] = OpenFile(descriptor)
            else:
                os.close(descriptor)  # another thread has opened it meanwhile
            file.pins += pins
            self._evict()
            return file

    def _evict(self) -> None:
        if len(self._files) > self._max_open:
            idle = [path for path, file in self._files.items() if not file.pins]
            for path in idle[: len(self._files) - self._max_open]:
                os.close(self._files.pop(path).descriptor)

    def unpin(self, file: OpenFile) -> None:
        with self._lock:
            file.pins -= 1
            if file.doomed and not file.pins:
                os.close(file.descriptor)

    def forget(self, path: str) -> None:
        """Close the file at `path`, now if it is not in use, otherwise when its last user calls `unpin`. Do nothing if
        it is not open.
        """
        with self._lock:
            file = self._files.pop(path, None)
            if file is None:
                return
            if file.pins:
                file.doomed = True
            else:
                os.close(file.descriptor)

    def close(self) -> None:
        for path in list(self._files):
            self.forget(path)
