"""Gives each broker of a cluster on one machine a CPU of its own to measure: a control group with a quota.

Pulsar's brokers report the CPU usage of their container. On one machine without containers all would report that of the
machine, and no balancer could tell them apart. A group is in the version 1 hierarchies `cpu` and `cpuacct`, which needs
root. All that belongs to the benchmark has CPU before other work on the machine: without it the clients would send less
than they should, and brokers without load are balanced.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

_ROOT: Final = Path("/sys/fs/cgroup")
_HIERARCHIES: Final = ("cpu", "cpuacct")
_WEIGHT: Final = 50 * 1024
"""Of a group beside a process that is in no group, which has 1024."""
_WRAPPER: Final = """\
#!/bin/sh
# the last argument of a broker is its file broker-N.conf
for last in "$@"; do :; done
case "$last" in
*/broker-*.conf)
  name=$(basename "$last" .conf)
  for hierarchy in {hierarchies}; do echo $$ > "{root}/$hierarchy/{prefix}-$name/cgroup.procs"; done;;
esac
exec "{java}" "$@"
"""


class NoSharesError(Exception):
    """This machine has no usable control groups. The text is the reason."""


class Shares:
    """The groups of the brokers `broker-0`, `broker-1`, …, and `java`, which starts a broker in its group. This process
    and its other children are in one more, without a limit."""

    def __init__(self, folder: Path, brokers: int, java: str) -> None:
        prefix = f"barycenter-bench-{os.getpid()}"
        self._names = [f"{prefix}-broker-{number}" for number in range(brokers)]
        self._rest = f"{prefix}-rest"
        self.java = folder / "java"
        self.java.write_text(_WRAPPER.format(hierarchies=" ".join(_HIERARCHIES), root=_ROOT, prefix=prefix, java=java))
        self.java.chmod(0o755)

    def make(self) -> None:
        """Make the groups.

        Raises:
            NoSharesError: they cannot be made.
        """
        try:
            for folder in self._folders():
                folder.mkdir()
            for name in (*self._names, self._rest):
                (_ROOT / "cpu" / name / "cpu.shares").write_text(str(_WEIGHT))
            self._join(self._rest)
        except OSError as error:
            raise NoSharesError(f"control groups cannot be made: {error}") from error

    def limit(self, cores: float) -> None:
        """Limit each broker to this part of a core; it starts faster without a limit."""
        for name in self._names:
            period_us = int((_ROOT / "cpu" / name / "cpu.cfs_period_us").read_text())
            (_ROOT / "cpu" / name / "cpu.cfs_quota_us").write_text(str(int(cores * period_us)))

    def used_s(self) -> list[float]:
        """Return the CPU seconds that each broker has used so far."""
        return [int((_ROOT / "cpuacct" / name / "cpuacct.usage").read_text()) / 1e9 for name in self._names]

    def remove(self) -> None:
        """Remove the groups; this process leaves its own, all others have ended."""
        with suppress(OSError):
            self._join("")
        for folder in self._folders():
            with suppress(OSError):
                folder.rmdir()

    def _join(self, name: str) -> None:
        for hierarchy in _HIERARCHIES:
            (_ROOT / hierarchy / name / "cgroup.procs").write_text(str(os.getpid()))

    def _folders(self) -> Sequence[Path]:
        return [_ROOT / hierarchy / name for hierarchy in _HIERARCHIES for name in (*self._names, self._rest)]


@contextmanager
def shares(folder: Path, brokers: int, java: str) -> Iterator[Shares]:
    """Make the groups of so many brokers, which run by the program `java`; remove them at the end, when the brokers
    have ended.

    Raises:
        NoSharesError: they cannot be made.
    """
    found = Shares(folder, brokers, java)
    try:
        found.make()
        yield found
    finally:
        found.remove()
