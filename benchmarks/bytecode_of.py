"""What another benchmark runs of the package's Python code, counted instead of timed: bytecode instructions and calls.

`python -m benchmarks bytecode_of --of NAME --before CHECKOUT --options "OPTION ..."` runs the benchmark NAME of this
checkout and that of another one, each with the options, and counts in all threads of their processes, but not in
processes that they start. So it also shows a difference on a machine that does other work. Set-up is counted, too: give
options with which the measured part is long. Work in C, such as that of numpy, counts as at most one call.

Tracing takes some fifty times as long. `--function FUNCTION --arguments JSON` calls one function of the benchmark with
a list of arguments instead, such as `--of decisions --function rounds --arguments "[1, [[10, 1000]]]"`.
"""

import argparse
import contextlib
import importlib
import io
import json
import os
import runpy
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Final

from benchmarks.__main__ import benchmarks
from benchmarks.machine import print_table
from benchmarks.message_bytecode import KINDS, CodeCounts, differences, package_of, totals

_REPOSITORY: Final = Path(__file__).parents[1]


def count(checkout: Path, asked: argparse.Namespace) -> dict[str, list[int]]:
    """Count in a process of its own; see `CodeCounts.by_function`."""
    command = [sys.executable, "-m", "benchmarks.bytecode_of", "--serve", str(checkout), "--of", asked.of]
    command += [f"--options={asked.options}", "--function", asked.function, "--arguments", asked.arguments]
    environment = {**os.environ, "PYTHONPATH": str(checkout / "src"), "PYTHONHASHSEED": "0"}
    done = subprocess.run(command, cwd=_REPOSITORY, env=environment, stdout=subprocess.PIPE, check=True)
    found: dict[str, list[int]] = json.loads(done.stdout)
    return found


def serve(checkout: Path, asked: argparse.Namespace) -> None:
    """Run the benchmark of a checkout, whose sources are on the path, and print the counts."""
    counts = CodeCounts(str(checkout / "src" / package_of(checkout)) + os.sep)
    for module in [module for module in sys.modules if module.partition(".")[0] == "benchmarks"]:
        del sys.modules[module]  # from now on they are those of the checkout
    sys.path.insert(0, str(checkout))
    sys.argv = [asked.of, *shlex.split(asked.options)]
    counts.install()
    counts.start()
    with contextlib.redirect_stdout(io.StringIO()):
        if asked.function:
            getattr(importlib.import_module(f"benchmarks.{asked.of}"), asked.function)(*json.loads(asked.arguments))
        else:
            runpy.run_module(f"benchmarks.{asked.of}", run_name="__main__")
    counts.stop()
    sys.settrace(None)
    sys.setprofile(None)
    print(json.dumps(counts.by_function()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--of", required=True, choices=benchmarks(), metavar="NAME", help="the benchmark to run")
    parser.add_argument("--options", default="", help="its options, as one text")
    parser.add_argument("--function", default="", help="call this function of it; the whole benchmark if not given")
    parser.add_argument("--arguments", default="[]", metavar="JSON", help="the function's arguments, as a list")
    parser.add_argument("--before", type=Path, metavar="CHECKOUT", help="the other checkout; this one if not given")
    parser.add_argument("--functions", type=int, default=0, metavar="N", help="list the N functions that differ most")
    parser.add_argument("--serve", type=Path, metavar="CHECKOUT", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.serve is not None:
        serve(asked.serve, asked)
        return
    before = count(asked.before.resolve() if asked.before is not None else _REPOSITORY, asked)
    after = count(_REPOSITORY, asked)
    rows = [
        [kind, old, new, f"{(new / old - 1) * 100:+.1f} %"]
        for kind, old, new in zip(KINDS, totals(before), totals(after), strict=True)
    ]
    print_table(f"Counts of {asked.of}", ["what", "before", "now", "difference"], rows)
    for change, function in differences(before, after, asked.functions):
        print(f"{change:+,.0f} instructions in {function}")


if __name__ == "__main__":
    main()
