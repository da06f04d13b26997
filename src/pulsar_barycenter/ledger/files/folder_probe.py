"""Makes the tests in a folder on whose results `folder_needs` decides. Removes all files that it creates."""

import errno
import fcntl
import os
import re
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from pulsar_barycenter.ledger.errors import LedgerFolderUnfitError
from pulsar_barycenter.ledger.files.folder import FILE_MODE, FOLDER_MODE, NO_SPACE, ledger_error
from pulsar_barycenter.ledger.files.folder_needs import Access, Mount, Observed, Step, judge

MOUNTS: Final = Path("/proc/self/mountinfo")
_ESCAPE: Final = re.compile(r"\\([0-7]{3})")
_BEFORE: Final = b"a page that others write, too"
_FIELD: Final = b"FENCE"
_AT: Final = 7


def fit_access(folder: str, *, several_machines: bool) -> Access:
    """Create the folder if necessary, test it, and return how ledger files in it have to be read and written. If
    `several_machines` is True, brokers on other machines can use the folder too.

    Raises:
        LedgerFolderUnfitError: ledgers would not be safe in the folder; the message says what an operator can do.
        LedgerError: the folder cannot be created or written to.
    """
    try:
        os.makedirs(folder, mode=FOLDER_MODE, exist_ok=True)
        fitness = judge(observe(folder), several_machines=several_machines)
    except OSError as error:
        raise ledger_error(error) from error
    if fitness.problems:
        raise LedgerFolderUnfitError(folder, [(problem.why, problem.mend) for problem in fitness.problems])
    return fitness.access


def observe(folder: str) -> Observed:
    """Run every test step in an existing folder, and return the results.

    Raises:
        OSError: no file can be created in the folder.
    """
    try:
        mount = mount_of(os.path.realpath(folder), MOUNTS.read_text(errors="surrogateescape"))
    except OSError:
        mount = None
    answers: dict[Step, str] = {}
    for step, attempt in _ATTEMPTS.items():
        try:
            with _file(folder) as path:
                answers[step] = attempt(path)
        except OSError as error:
            if error.errno in NO_SPACE:
                continue  # a broker whose disk is full still serves existing messages
            if step is Step.CREATE:
                raise
            answers[step] = error.strerror or str(error)
    return Observed(folder, mount, answers)


def mount_of(folder: str, mounts: str) -> Mount | None:
    """Find the mount that has the folder with the real path `folder`; return None if there is none. `mounts` is the
    text of the file mountinfo (see proc(5)).

    The result is the mount whose mount point is the folder or the nearest folder above it. If several mounts have this
    mount point, the last of them is returned.
    """
    best, longest = None, -1
    for line in mounts.splitlines():
        before, dash, behind = line.partition(" - ")
        fields, system = before.split(" "), behind.split(" ")
        if not dash or len(fields) < 6 or len(system) < 2:
            continue
        point = _ESCAPE.sub(lambda found: chr(int(found[1], 8)), fields[4])
        is_above = point == "/" or folder == point or folder.startswith(f"{point}/")
        if is_above and len(point) >= longest:
            options = (*fields[5].split(","), *(system[2].split(",") if len(system) > 2 else ()))
            best, longest = Mount(system[0], system[1], options), len(point)
    return best


@contextmanager
def _file(folder: str) -> Iterator[str]:
    """Context manager: create an empty file in `folder`, yield its path, and remove the file at the end."""
    path = f"{folder}/probe-{uuid.uuid4().hex}"
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE))
    try:
        yield path
    finally:
        for name in (path, f"{path}-2"):
            with suppress(FileNotFoundError):
                os.unlink(name)


def _create(path: str) -> str:
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE))
    except FileExistsError:
        return ""
    return "an existing file was created again"


def _lock(path: str) -> str:
    with _opened(path) as first, _opened(path) as second:
        fcntl.flock(first, fcntl.LOCK_EX | fcntl.LOCK_NB)
        try:
            fcntl.flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            return "" if error.errno in (errno.EWOULDBLOCK, errno.EACCES) else str(error.strerror)
    return "two open files had the lock at once"


def _sync(path: str) -> str:
    with _opened(path) as file:
        os.pwrite(file, _BEFORE, 0)
        os.fdatasync(file)
        os.fsync(file)
    with _opened(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY) as folder:
        os.fsync(folder)
    return ""


def _rename(path: str) -> str:
    other = f"{path}-2"
    with _opened(other, os.O_RDWR | os.O_CREAT) as file:
        os.pwrite(file, _BEFORE, 0)
    os.replace(other, path)
    return "" if Path(path).read_bytes() == _BEFORE else "the replaced file is still there"


def _link(path: str) -> str:
    other = f"{path}-2"
    os.link(path, other)
    return "" if os.path.samefile(path, other) else "the second name refers to another file"


def _direct(path: str) -> str:
    flags = os.O_RDWR | os.O_DIRECT | os.O_DSYNC
    with _opened(path, flags) as file:
        os.pwrite(file, _BEFORE, 0)
        os.pwrite(file, _FIELD, _AT)
    with _opened(path, flags) as file:
        found = os.pread(file, len(_BEFORE) + 1, 0)
        field = os.pread(file, len(_FIELD), _AT)
    whole = _BEFORE[:_AT] + _FIELD + _BEFORE[_AT + len(_FIELD) :]
    return "" if (found, field) == (whole, _FIELD) else "the bytes read differ from the bytes written"


@contextmanager
def _opened(path: str, flags: int = os.O_RDWR) -> Iterator[int]:
    descriptor = os.open(path, flags | os.O_CLOEXEC, FILE_MODE)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


_ATTEMPTS: Final[dict[Step, Callable[[str], str]]] = {
    Step.CREATE: _create,
    Step.LOCK: _lock,
    Step.SYNC: _sync,
    Step.RENAME: _rename,
    Step.LINK: _link,
    Step.DIRECT: _direct,
}
