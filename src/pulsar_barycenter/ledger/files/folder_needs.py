"""Decides whether a folder can store the ledgers of brokers, from the kind of its file system and from the results of
tests. No I/O here.

On one machine all brokers see a folder through one page cache, and every file system that can lock and sync is good. On
several machines each machine has its own cache. Then a fence works only if a writer reads what another machine wrote,
and if its own writes do not change the bytes around them. One machine alone cannot test this, so the kind of file
system decides:

| kind | |
|---|---|
| `nfs4` | caches pages until a file is opened, and writes back whole pages: used with direct I/O, `DIRECT` |
| `ceph` `gfs2` `lustre` `ocfs2` | take a page from one machine's cache before another changes it: `CACHED` |
| local disks, such as `ext4` | `CACHED`; `folder_identity` finds brokers that use another folder |
| any other | not known to be safe: refused |

docs/ledgers-on-several-machines.md says what was tested.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


class Access(enum.Enum):
    """How ledger files are read and written. The value of a member describes it as text."""

    CACHED = "through the page cache of the machine"
    DIRECT = "with direct I/O"


class Step(enum.Enum):
    """A step of the test whether a folder can store ledgers. Its value is the property of the file system that the step
    tests, as text.
    """

    CREATE = "only one of several processes can create a file"
    LOCK = "a lock excludes other processes"
    SYNC = "files and folders can be synced"
    RENAME = "a file replaces another one atomically"
    LINK = "a file can have a second name (hard link)"
    DIRECT = "direct I/O can write and read some bytes without changing those around them"


@dataclass(frozen=True, slots=True)
class Mount:
    """The mount of the file system that has a folder. `kind` is the type of the file system, for example ext4.
    `options` are the options of the mount and of the file system.
    """

    kind: str
    source: str = ""
    options: tuple[str, ...] = ()

    def option(self, name: str) -> str | None:
        """Return the value of the option `name`: the text after "=" if the option has the form `name=value`, "" if it
        is only `name`. Return None if there is no such option.
        """
        for option in self.options:
            key, _, value = option.partition("=")
            if key == name:
                return value
        return None


@dataclass(frozen=True, slots=True)
class Observed:
    """The results of the test of a folder.

    `answers` has the result of each step: "" if it succeeded, otherwise the error as text. A step that could not be
    tried, because the disk is full, is not in `answers`. `mount` is None if the operating system does not list the
    mount.
    """

    folder: str
    mount: Mount | None
    answers: Mapping[Step, str]


@dataclass(frozen=True, slots=True)
class Problem:
    """A reason why a folder cannot store ledgers, and what an operator can do about it."""

    why: str
    mend: str


@dataclass(frozen=True, slots=True)
class FolderFitness:
    """How ledger files in a folder have to be read and written (`access`). If there are `problems`, the folder must not
    be used for ledgers.
    """

    access: Access
    problems: tuple[Problem, ...] = ()


OF_ONE_MACHINE: Final = frozenset(
    {"bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "overlay", "ramfs", "tmpfs", "xfs", "zfs"}
)
COHERENT: Final = frozenset({"ceph", "gfs2", "lustre", "ocfs2"})
NFS: Final = "nfs4"

_ALWAYS: Final = (Step.CREATE, Step.LOCK, Step.SYNC)
_OF_SEVERAL: Final = (*_ALWAYS, Step.RENAME, Step.LINK)
_ELSEWHERE: Final = (
    "put the ledgers on NFS mounted with vers=4.2, or on CephFS, GFS2, Lustre or OCFS2, and set barycenterDataDir; or"
    " keep the metadata in SQLite, with all brokers on one machine. See docs/ledgers-on-several-machines.md"
)
_LOCAL_LOCKS: Final = ("nolock", "local_lock", "localflock")


def judge(observed: Observed, *, several_machines: bool) -> FolderFitness:
    """Decide how ledger files in the folder have to be read and written, and find the problems for which the folder
    must not be used. `observed` are the results of the test of the folder.

    If `several_machines` is True, brokers on other machines can use the folder too, and it has to meet more
    requirements.
    """
    if not several_machines:
        return FolderFitness(Access.CACHED, _failed(observed, _ALWAYS))
    mount = observed.mount
    if mount is None:
        return FolderFitness(Access.CACHED, (Problem("the folder's file system is unknown", _ELSEWHERE),))
    if mount.kind == NFS:
        failed = _failed(observed, (*_OF_SEVERAL, Step.DIRECT))
        return FolderFitness(Access.DIRECT, (*_local_locks(mount), *failed))
    if mount.kind == "nfs":
        version = mount.option("vers") or "3"
        mend = f"mount {mount.source or 'it'} with vers=4.2"
        return FolderFitness(
            Access.DIRECT, (Problem(f"a lock of NFS {version} does not end when its holder crashes", mend),)
        )
    if mount.kind in COHERENT | OF_ONE_MACHINE:
        return FolderFitness(Access.CACHED, (*_local_locks(mount), *_failed(observed, _OF_SEVERAL)))
    why = f"{mount.kind} is not known to show a broker what another machine wrote, so a fence may fail"
    return FolderFitness(Access.CACHED, (Problem(why, _ELSEWHERE),))


def _failed(observed: Observed, needed: tuple[Step, ...]) -> tuple[Problem, ...]:
    return tuple(
        Problem(
            f"it is required that {step.value}, but the test failed: {observed.answers[step]}",
            "use a folder on another file system",
        )
        for step in needed
        if observed.answers.get(step)
    )


def _local_locks(mount: Mount) -> tuple[Problem, ...]:
    found = [
        name if not value else f"{name}={value}"
        for name in _LOCAL_LOCKS
        if (value := mount.option(name)) is not None and value not in ("none", "posix")
    ]
    mend = "mount the file system without this option, so that locks apply to all machines"
    return tuple(Problem(f"the file system is mounted with {option}", mend) for option in found)
