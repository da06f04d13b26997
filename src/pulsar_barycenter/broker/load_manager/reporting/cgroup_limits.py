"""Reads the CPU and memory limits of the container in which this process runs: control groups, versions 1 and 2.

A limit may be set on every group from that of the process up to the visible root; the lowest limit applies. `root` is
the root of the file system, another folder in tests.

Source: Pulsar's `LinuxInfoUtils` (version 1). Version 2 and nested groups are additions.
"""

import os
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

_UNLIMITED_BYTES: Final = 2**62
"""Numbers from this one on mean "no limit": version 1 writes a number near 2^63 for it."""


@dataclass(frozen=True, slots=True)
class CgroupLimits:
    """The limits of a container: `cpu_percent` in percent of one core, `memory_bytes` in bytes; None: no limit."""

    cpu_percent: float | None = None
    memory_bytes: int | None = None


def read_cgroup_limits(root: Path = Path("/")) -> CgroupLimits:
    """Return the lowest limits that apply to this process; a file that is missing or unreadable means no limit."""
    cpu: list[float] = []
    memory: list[int] = []
    for controllers, path in _memberships(root):
        if controllers == "":
            for folder in _upwards(root / "sys/fs/cgroup", path):
                cpu += _quota_v2(folder)
                memory += _bytes_of(folder / "memory.max")
        if "cpu" in controllers.split(","):
            for folder in _upwards(root / "sys/fs/cgroup/cpu", path):
                cpu += _quota_v1(folder)
        if "memory" in controllers.split(","):
            for folder in _upwards(root / "sys/fs/cgroup/memory", path):
                memory += _bytes_of(folder / "memory.limit_in_bytes")
    return CgroupLimits(min(cpu, default=None), min(memory, default=None))


def available_cores() -> int:
    """Return the number of cores on which this process may run."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


def _memberships(root: Path) -> list[tuple[str, PurePosixPath]]:
    """Return (controllers, path) of each line in /proc/self/cgroup; in version 2 controllers is ""."""
    found = []
    for line in _text(root / "proc/self/cgroup").splitlines():
        parts = line.split(":", 2)
        if len(parts) == 3:
            found.append((parts[1], PurePosixPath(parts[2])))
    return found


def _upwards(mount: Path, path: PurePosixPath) -> list[Path]:
    """Return the folder of a control group and the folders above it. In a container the mount point itself may be the
    group's folder.
    """
    relative = PurePosixPath(*[part for part in path.parts if part not in ("/", "..")])
    return [mount / relative, *(mount / above for above in relative.parents)]


def _quota_v2(folder: Path) -> list[float]:
    match _text(folder / "cpu.max").split():
        case [quota, period] if quota.isdigit() and period.isdigit() and int(period) > 0:
            return [100.0 * int(quota) / int(period)]
    return []


def _quota_v1(folder: Path) -> list[float]:
    quota, period = _text(folder / "cpu.cfs_quota_us").strip(), _text(folder / "cpu.cfs_period_us").strip()
    if quota.isdigit() and period.isdigit() and int(quota) > 0 and int(period) > 0:
        return [100.0 * int(quota) / int(period)]
    return []


def _bytes_of(file: Path) -> list[int]:
    text = _text(file).strip()
    return [int(text)] if text.isdigit() and int(text) < _UNLIMITED_BYTES else []


def _text(file: Path) -> str:
    try:
        return file.read_text()
    except (OSError, UnicodeDecodeError):
        return ""
