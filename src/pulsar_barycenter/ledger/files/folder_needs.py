"""Whether a folder can hold the ledgers of brokers, by what it is and what it answered. No I/O here.

On one machine all brokers see a folder through one cache, and every file system that locks and syncs will do. Of
several machines each sees what it remembers itself. A fence holds there only if a writer reads what another machine
wrote, and if its own writes leave the bytes around them alone. Which file systems do so is not to be found out from
one machine, so it goes by their kind:

| kind | |
|---|---|
| `nfs4` | remembers pages until a file is opened, and writes whole ones back: used past the caches, `DIRECT` |
| `ceph` `gfs2` `lustre` `ocfs2` | take a page from one machine's cache before another changes it: `CACHED` |
| of one machine's own disks, such as `ext4` | `CACHED`; `one_folder` tells brokers that see another one |
| any other | not known to hold: refused |

docs/ledgers-on-several-machines.md tells what was tried.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


class Access(enum.Enum):
    """How ledger files are read and written."""

    CACHED = "through the machine's caches"
    DIRECT = "past the machine's caches"


class Step(enum.Enum):
    """What is tried in the folder; the value says what has to hold."""

    CREATE = "a file is created by one of those that try"
    LOCK = "a lock keeps others out"
    SYNC = "files and folders are synced"
    RENAME = "a file takes the place of another in one step"
    LINK = "a file has a second name"
    DIRECT = "a few bytes are written and read past the caches, and those around them stay"


@dataclass(frozen=True, slots=True)
class Mount:
    """The file system that a folder lies on: `options` are those of the mount and those of the file system."""

    kind: str
    source: str = ""
    options: tuple[str, ...] = ()

    def option(self, name: str) -> str | None:
        """Return what stands behind `name=`, "" for a bare name, None if there is none."""
        for option in self.options:
            key, _, value = option.partition("=")
            if key == name:
                return value
        return None


@dataclass(frozen=True, slots=True)
class Observed:
    """What was seen of a folder. `answers` has "" for a step that held, else what went wrong; steps that could not be
    tried, as where the disk is full, are absent. `mount` is None where the system does not tell."""

    folder: str
    mount: Mount | None
    answers: Mapping[Step, str]


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a folder cannot hold ledgers, and what to do."""

    why: str
    mend: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """With problems, nothing may be written there."""

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


def verdict(observed: Observed, *, several_machines: bool) -> Verdict:
    """Say how ledgers in the folder are to be accessed, and what speaks against it.

    `several_machines` says that brokers of other machines may use it, too.
    """
    if not several_machines:
        return Verdict(Access.CACHED, _failed(observed, _ALWAYS))
    mount = observed.mount
    if mount is None:
        return Verdict(Access.CACHED, (Problem("the system does not tell what file system it lies on", _ELSEWHERE),))
    if mount.kind == NFS:
        failed = _failed(observed, (*_OF_SEVERAL, Step.DIRECT))
        return Verdict(Access.DIRECT, (*_local_locks(mount), *failed))
    if mount.kind == "nfs":
        version = mount.option("vers") or "3"
        mend = f"mount {mount.source or 'it'} with vers=4.2"
        return Verdict(Access.DIRECT, (Problem(f"NFS {version} has no locks that end with their holder", mend),))
    if mount.kind in COHERENT | OF_ONE_MACHINE:
        return Verdict(Access.CACHED, (*_local_locks(mount), *_failed(observed, _OF_SEVERAL)))
    why = f"{mount.kind} is not known to show a broker what one on another machine wrote, so a fence may not hold"
    return Verdict(Access.CACHED, (Problem(why, _ELSEWHERE),))


def _failed(observed: Observed, needed: tuple[Step, ...]) -> tuple[Problem, ...]:
    return tuple(
        Problem(f"it has to hold that {step.value}: {observed.answers[step]}", "take a folder on another file system")
        for step in needed
        if observed.answers.get(step)
    )


def _local_locks(mount: Mount) -> tuple[Problem, ...]:
    found = [
        name if not value else f"{name}={value}"
        for name in _LOCAL_LOCKS
        if (value := mount.option(name)) is not None and value not in ("none", "posix")
    ]
    mend = "mount it without, so that a lock counts on all machines"
    return tuple(Problem(f"it is mounted with {option}", mend) for option in found)
