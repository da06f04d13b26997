"""`python -m benchmarks pulsar`: Apache Pulsar and Barycenter measured in turns, A B B A.

Needs Maven and a JDK, 17 or newer; without them it says so and measures nothing. Figures are medians of the rounds;
every single one is in the JSON, with the load average before it: on a machine that does other work, compare those.
"""

import argparse
import json
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from benchmarks.machine import machine, print_table
from benchmarks.pulsar.loads import Row, rows
from benchmarks.pulsar.rounds import measure, medians
from benchmarks.pulsar.systems import BARYCENTER, PULSAR, STARTS, pulsar_version
from support.maven import PeerUnavailableError


def table(records: list[dict[str, object]], chosen: dict[str, Row]) -> list[list[object]]:
    lines: list[list[object]] = []
    for name, row in chosen.items():
        theirs, ours = (medians(records, name, system) for system in (PULSAR, BARYCENTER))
        for figure, value in theirs.items():
            lines.append([f"{row.title}: {figure}", value, ours[figure], ours[figure] / value])
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", nargs="+", metavar="ROW", help=f"of {', '.join(rows(0))}; a prefix takes several")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0, help="factor for the numbers of messages and lookups")
    parser.add_argument("--burners", type=int, default=2, help="processes of the busy machine")
    default = Path(tempfile.gettempdir()) / "barycenter-beside-pulsar.json"
    parser.add_argument("--json", type=Path, default=default, help="where all figures go (%(default)s)")
    arguments = parser.parse_args()
    known = rows(arguments.burners)
    wanted = tuple(arguments.rows or known)
    if missing := [each for each in wanted if not any(name.startswith(each) for name in known)]:
        parser.error(f"no row begins with {missing[0]}; there are {', '.join(known)}")
    chosen = {name: row for name, row in known.items() if name.startswith(wanted)}
    try:
        version = pulsar_version()
        with ExitStack() as running:
            systems = []
            for start in STARTS.values():
                folder = running.enter_context(tempfile.TemporaryDirectory(prefix="barycenter-bench-"))
                systems.append(running.enter_context(start(Path(folder))))
            records = measure(chosen, systems, arguments.rounds, arguments.scale)
    except PeerUnavailableError as error:
        sys.exit(f"Nothing was measured: Apache Pulsar comes from Maven, and that cannot be had here. {error}")
    loads = [float(record["load average"]) for record in records]  # type: ignore[arg-type]
    document = {"machine": machine(), "pulsar": version, "rounds": arguments.rounds, "records": records}
    arguments.json.write_text(json.dumps(document, indent=1))
    print_table(
        f"Beside Apache Pulsar {version}",
        ["load: figure", PULSAR, BARYCENTER, "Barycenter / Pulsar"],
        table(records, chosen),
    )
    print(f"\nMedians of {arguments.rounds}; load average {min(loads):.1f} to {max(loads):.1f}; all: {arguments.json}")


if __name__ == "__main__":
    main()
