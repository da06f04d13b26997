"""What a look-up costs in the broker's Python code, counted instead of timed: bytecode instructions and calls.

`python -m benchmarks lookup_bytecode --before CHECKOUT`: LOOKUP commands of topics that the broker owns go into a
connection of it, of this checkout and of another one; as many in a read as `benchmarks lookups` has under way. Work in
C counts as at most one call. `--functions N` lists the functions that differ most.
"""

import argparse
import asyncio
import importlib
import json
import os
import struct
import subprocess
import sys
from pathlib import Path
from typing import Final

from benchmarks.machine import print_table
from benchmarks.message_bytecode import KINDS, CodeCounts, CountingTransport, Frames, differences, package_of, totals

_REPOSITORY: Final = Path(__file__).parents[1]
_TOPICS: Final = 64
_IN_READ: Final = 256
_SIZES: Final = struct.Struct(">II")


def lookups(frames: Frames, count: int) -> bytes:
    """Return `count` LOOKUP frames as clients write them."""
    found = []
    for number in range(count):
        topic = f"persistent://public/default/topic-{number % _TOPICS}"
        about = {"topic": topic, "request_id": number, "authoritative": False}
        command = frames.api.BaseCommand(type=frames.number("lookup"), lookupTopic=about).SerializeToString()
        found.append(_SIZES.pack(4 + len(command), len(command)) + command)
    return b"".join(found)


async def count_lookups(package: str, counts: CodeCounts, reads: int) -> None:
    """Count while a broker answers this many reads of look-ups."""
    rest_cluster = importlib.import_module("support.rest_cluster").rest_cluster
    frames = Frames(package)
    answer = frames.number("lookup_response")
    async with rest_cluster() as cluster:
        connection, transport = cluster.brokers[0].wire.new_connection(), CountingTransport()
        connection.connection_made(transport)
        connection.data_received(frames.command("connect", client_version="counted", protocol_version=19))
        await transport.expect(frames.number("connected"), 1)
        # The first look-ups, which assign the bundles, are not counted.
        connection.data_received(lookups(frames, _TOPICS))
        await transport.expect(answer, _TOPICS)
        read = lookups(frames, _IN_READ)
        for number in range(1, reads + 1):
            counts.start()
            connection.data_received(read)
            await transport.expect(answer, _TOPICS + number * _IN_READ)
            counts.stop()


def count(checkout: Path, reads: int) -> dict[str, list[float]]:
    """Count in a process of its own with the sources of a checkout; see `CodeCounts.by_function`, for one look-up."""
    paths = os.pathsep.join(map(str, (checkout / "src", checkout / "tests", _REPOSITORY)))
    command = [sys.executable, "-m", "benchmarks.lookup_bytecode", "--serve", str(checkout), "--reads", str(reads)]
    environment = {**os.environ, "PYTHONPATH": paths, "PYTHONHASHSEED": "0"}
    done = subprocess.run(command, cwd=_REPOSITORY, env=environment, stdout=subprocess.PIPE, check=True)
    found: dict[str, list[int]] = json.loads(done.stdout)
    return {function: [number / (reads * _IN_READ) for number in numbers] for function, numbers in found.items()}


def serve(checkout: Path, reads: int) -> None:
    """Count with the checkout whose sources are on the path, and print the counts."""
    import structlog

    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    package = package_of(checkout)
    counts = CodeCounts(str(checkout / "src" / package) + os.sep)
    counts.install()
    asyncio.run(count_lookups(package, counts, reads))
    sys.settrace(None)
    sys.setprofile(None)
    print(json.dumps(counts.by_function()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, metavar="CHECKOUT", help="the other checkout; this one if not given")
    parser.add_argument("--reads", type=int, default=10, help=f"reads with {_IN_READ} look-ups each")
    parser.add_argument("--functions", type=int, default=0, metavar="N", help="list the N functions that differ most")
    parser.add_argument("--serve", type=Path, metavar="CHECKOUT", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve is not None:
        serve(arguments.serve, arguments.reads)
        return
    before = count(arguments.before.resolve() if arguments.before is not None else _REPOSITORY, arguments.reads)
    after = count(_REPOSITORY, arguments.reads)
    rows = [
        [kind, old, new, f"{(new / old - 1) * 100:+.1f} %"]
        for kind, old, new in zip(KINDS, totals(before), totals(after), strict=True)
    ]
    print_table("Counts for one look-up of an owned topic", ["what", "before", "now", "difference"], rows)
    for change, function in differences(before, after, arguments.functions):
        print(f"{change:+.3f} instructions in {function}")


if __name__ == "__main__":
    main()
