"""`python -m benchmarks on_bookies`: Apache Pulsar and Barycenter on the same bookies and ZooKeeper, in turns A B B A.

The third system is Barycenter with files, on the same machine. Needs Maven and a JDK, 17 or newer; without them it says
so and measures nothing. The ensemble settings are those of both systems; one bookie, or three of which two confirm.
Figures are medians of the rounds; every single one is in the JSON, with the load average before it. The CPU is the
broker's, that of ZooKeeper and the bookies is counted by itself. With `--moves` two brokers of each system hand a topic
to each other, and its owner is killed; nothing else is measured then.
"""

import argparse
import json
import os
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Final

from benchmarks.machine import machine, percentile, print_table
from benchmarks.on_bookies.loads import moves_of_barycenter, moves_of_pulsar, topics_loaded
from benchmarks.on_bookies.systems import ENSEMBLES, FILES, Ensemble, store, systems
from benchmarks.pulsar.loads import Row, message_rows, rows_of_one_rate, steady, unload
from benchmarks.pulsar.rounds import measure, medians
from benchmarks.pulsar.systems import BARYCENTER, PULSAR, pulsar_version
from support.maven import PeerUnavailableError

_RATES: Final = {(False, 100): 10_000, (False, 1024): 10_000, (True, 100): 100_000, (True, 1024): 30_000}
"""Messages a second that all systems reach on one bookie, by whether batched, and bytes."""
_NAMES: Final = (PULSAR, BARYCENTER, FILES)


def rows(topics: int) -> dict[str, Row]:
    """Return all rows by their names, in the order in which they are measured."""
    return {
        **dict(message_rows()),
        **dict(rows_of_one_rate(_RATES)),
        "latency": Row("1,000 msg/s of 1 KiB", partial(steady, burners=0), 1),
        "unload": Row("unload of a bundle", unload),
        "topics": Row(f"{topics:,} topics", partial(topics_loaded, topics=topics)),
    }


def table(records: list[dict[str, object]], chosen: dict[str, Row], names: tuple[str, ...]) -> list[list[object]]:
    lines: list[list[object]] = []
    for name, row in chosen.items():
        found = {system: medians(records, name, system) for system in names}
        for figure, value in found[names[0]].items():
            values = [found[system].get(figure, float("nan")) for system in names]
            lines.append([f"{row.title}: {figure}", *values, *(other / value for other in values[1:])])
    return lines


def print_moves(folder: Path, ensemble: Ensemble, rounds: int, session_ms: int) -> None:
    """Measure the moves of both systems in turns, and print what their clients saw."""
    gaps: dict[tuple[str, str], list[float]] = {}
    verdicts = []
    with store(folder, ensemble, brokers=2, session_ms=session_ms) as shared:
        for _ in range(rounds):
            for name, moves in ((PULSAR, moves_of_pulsar), (BARYCENTER, moves_of_barycenter)):
                load = os.getloadavg()[0]
                found, verdict = moves(shared)
                verdicts.append(f"{name} (load average {load:.1f}): {verdict}")
                print(verdicts[-1], found, file=sys.stderr, flush=True)
                for event, seconds in found.items():
                    gaps.setdefault((event, name), []).extend(seconds)
    lines = [
        [event, name, len(found), *(1000 * percentile(found, percent) for percent in (50, 100))]
        for (event, name), found in sorted(gaps.items())
    ]
    print_table(f"Moves on {ensemble}", ["event", "system", "times", "gap p50 ms", "gap max ms"], lines)
    print("\n" + "\n".join(verdicts))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", nargs="+", metavar="ROW", help=f"of {', '.join(rows(0))}; a prefix takes several")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0, help="factor for the numbers of messages and topics")
    parser.add_argument("--topics", type=int, default=1000)
    parser.add_argument("--bookies", type=int, choices=list(ENSEMBLES), default=1)
    parser.add_argument("--systems", nargs="+", choices=_NAMES, default=_NAMES, help="in the order of their turns")
    parser.add_argument("--moves", action="store_true", help="measure moves between two brokers instead of the rows")
    parser.add_argument("--session-ms", type=int, default=10_000, help="of the brokers of --moves")
    default = Path(tempfile.gettempdir()) / "barycenter-on-bookies.json"
    parser.add_argument("--json", type=Path, default=default, help="where all figures go (%(default)s)")
    arguments = parser.parse_args()
    known, ensemble = rows(arguments.topics), ENSEMBLES[arguments.bookies]
    wanted, names = tuple(arguments.rows or known), tuple(arguments.systems)
    if missing := [row for row in wanted if not any(name.startswith(row) for name in known)]:
        parser.error(f"no row begins with {missing[0]}; there are {', '.join(known)}")
    chosen = {name: row for name, row in known.items() if name.startswith(wanted)}
    with tempfile.TemporaryDirectory(prefix="barycenter-bench-") as folder:
        try:
            version = pulsar_version()
            if arguments.moves:
                print_moves(Path(folder), ensemble, arguments.rounds, arguments.session_ms)
                return
            with systems(Path(folder), ensemble, names) as running:
                records = measure(chosen, running, arguments.rounds, arguments.scale)
        except PeerUnavailableError as error:
            sys.exit(f"Nothing was measured: Apache Pulsar comes from Maven, and that cannot be had here. {error}")
    loads = [float(record["load average"]) for record in records]  # type: ignore[arg-type]
    document = {"machine": machine(), "pulsar": version, "ensemble": str(ensemble), "records": records}
    arguments.json.write_text(json.dumps(document, indent=1))
    print_table(
        f"Next to Apache Pulsar {version} on {ensemble}",
        ["load: figure", *names, *(f"{name} / {names[0]}" for name in names[1:])],
        table(records, chosen, names),
    )
    print(f"\nMedians of {arguments.rounds}; load average {min(loads):.1f} to {max(loads):.1f}; all: {arguments.json}")


if __name__ == "__main__":
    main()
