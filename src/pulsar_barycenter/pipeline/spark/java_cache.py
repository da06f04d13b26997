"""The folder for files that are made once for Java: a launcher, log settings, archives of classes.

Java runs these files as code. So the folder is used only if no user but its owner and root can change its content.
Otherwise, or if it cannot be created, this process uses a temporary folder, and no archive is kept.
"""

import atexit
import os
import stat
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

CACHE_VARIABLE = "BARYCENTER_CACHE"
_OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH


@dataclass(frozen=True, slots=True)
class JavaCache:
    """A folder for files that make Java's start faster. `hindrance` is None if the folder is kept for later processes;
    otherwise the folder is temporary, and `hindrance` says why.
    """

    folder: Path
    hindrance: str | None = None


def default_folder(environment: Mapping[str, str]) -> Path:
    """Return the folder for files that make Java's start faster: `java` in the folder BARYCENTER_CACHE if this variable
    is set; otherwise `barycenter/java` in XDG_CACHE_HOME, or if that is not set in ~/.cache.

    Raises:
        RuntimeError: neither variable is set, and the user has no home.
    """
    own, base = environment.get(CACHE_VARIABLE), environment.get("XDG_CACHE_HOME")
    if own:
        return Path(own) / "java"
    return (Path(base) if base else Path.home() / ".cache") / "barycenter" / "java"


def open_cache(environment: Mapping[str, str]) -> JavaCache:
    """Return the cache of this user, which is created with mode 0700 if it is missing. If it cannot be used, or other
    users may write to it, return a temporary one with the reason.
    """
    try:
        folder = default_folder(environment)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if folder.stat().st_uid == os.geteuid():
            folder.chmod(0o700)
            with tempfile.TemporaryFile(dir=folder):
                pass
    except (OSError, RuntimeError) as error:
        return JavaCache(_passing_folder(), f"the folder for files of Java cannot be used: {error}")
    writable = writable_by_others(folder)
    if writable is not None:
        return JavaCache(_passing_folder(), f"other users may write to {writable}")
    return JavaCache(folder)


def writable_by_others(path: Path) -> Path | None:
    """Return a path that another user (not this one, and not root) can replace or change: `path` itself, or a folder
    above it. None if there is none.

    In a folder with the sticky bit, such as /tmp, other users cannot replace entries of this user. So such a folder
    above `path` counts as safe.
    """
    resolved = path.resolve()
    for place in (resolved, *resolved.parents):
        found = place.lstat()
        is_shared = stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_ISVTX and place != resolved
        if found.st_uid not in (0, os.geteuid()) or (found.st_mode & _OTHERS_MAY_WRITE and not is_shared):
            return place
    return None


@cache
def _passing_folder() -> Path:
    made = tempfile.TemporaryDirectory(prefix="barycenter-java-", ignore_cleanup_errors=True)
    atexit.register(made.cleanup)
    return Path(made.name)
