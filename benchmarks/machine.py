"""Describes the machine on which values were measured, and prints tables of values."""

import ctypes
import gc
import os
import platform
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path


def machine() -> str:
    """Return one line: processor, cores, memory, Python, date."""
    model = next(
        (line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line),
        platform.machine(),
    )
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    cores = len(os.sched_getaffinity(0))
    python = platform.python_version()
    return f"{model}, {cores} cores, {memory_gib:.0f} GiB, Python {python}, {datetime.now(UTC):%Y-%m-%d}"


def peak_growth_mib(work: Callable[[], object]) -> float:
    """Return by how many MiB the largest resident size of a forked child grows while it does `work`.

    Memory that the allocator keeps for later is given back first, or `work` would use that without being charged.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            gc.collect()
            ctypes.CDLL(None).malloc_trim(0)
            Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
            before = _status_kib("VmRSS")
            work()
            os.write(writer, str(_status_kib("VmHWM") - before).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as answer:
        told = answer.read()
    os.waitpid(child, 0)
    if not told:
        raise RuntimeError("the child that measures memory failed; its error stands above")
    return int(told) / 1024


def _status_kib(key: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(key))


def print_table(title: str, header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a Markdown table, as benchmarks/results keeps them."""
    print(f"\n### {title}\n\n{machine()}; `{' '.join(['python', '-m', *_module()])}`\n")
    print("| " + " | ".join(header) + " |")
    print("|" + "---|" * len(header))
    for row in rows:
        print("| " + " | ".join(cell(value) for value in row) + " |")


def percentile(values: Sequence[float], percent: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


def cell(value: object) -> str:
    """Return a figure as tables have it: three digits, from 100 on whole numbers."""
    return (
        f"{value:,.3g}"
        if isinstance(value, float) and value < 100
        else f"{value:,.0f}"
        if isinstance(value, float)
        else str(value)
    )


def _module() -> list[str]:
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    name = spec.name if spec else sys.argv[0]
    # under `python -m benchmarks NAME` the first argument is the benchmark itself
    return [f"benchmarks.{sys.argv[0]}" if name == "benchmarks.__main__" else name, *sys.argv[1:]]
