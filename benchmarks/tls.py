"""`python -m benchmarks tls`: what TLS costs, by the same loads on one broker process without and with TLS, in turns.

Messages come from `pulsar-perf`, so it needs Maven and a JDK, 17 or newer, and openssl; without them it says so and
measures nothing. Clients check the broker's certificate and its host. New connections are those of the binary port,
each up to the answer to its CONNECT, several at a time, and by TLS with a whole handshake each, as the broker resumes
no session. CPU is that of all server processes. Figures are medians of the rounds, a round is both in turn; every
single value is printed when it is measured, with the load average before it.
"""

import argparse
import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final

from benchmarks.lookups import connected
from benchmarks.machine import print_table
from benchmarks.pulsar.loads import Figures, Row, lookups, perf
from benchmarks.pulsar.rounds import measure, medians
from benchmarks.pulsar.systems import System, barycenter_itself, pulsar_itself, pulsar_version
from support.apache_pulsar import perf_command
from support.certificates import ELLIPTIC, RSA, make_certificates
from support.maven import PeerUnavailableError, tool

_STEADY_RATE: Final = 1000
_CONNECTIONS: Final = 2000
_CONNECTING: Final = 8
"""Connections that are made side by side."""
_KEYS: Final = {"ec": ("an EC P-256 key", ELLIPTIC), "rsa": ("an RSA key of 2,048 bits", RSA)}


def connections(system: System, *, scale: float) -> Figures:
    """New connections to the binary port, each closed once its CONNECT is answered."""
    tls, count = system.client_context(), int(_CONNECTIONS * scale) // _CONNECTING * _CONNECTING

    async def one_after_the_other() -> None:
        for _ in range(count // _CONNECTING):
            _, writer = await connected(system.url, tls)
            writer.close()
            await writer.wait_closed()

    async def all_of_them() -> None:
        await asyncio.gather(*(one_after_the_other() for _ in range(_CONNECTING)))

    before, start = system.cpu_s(), time.perf_counter()
    asyncio.run(all_of_them())
    seconds, cpu_s = time.perf_counter() - start, system.cpu_s() - before
    return {"connections/s, client included": count / seconds, "CPU ms each": 1e3 * cpu_s / count}


def rows() -> dict[str, Row]:
    """All loads by their names, in the order in which they are measured."""
    steady = partial(perf, size=1024, batched=False, most_per_s=_STEADY_RATE)
    return {
        **dict(_message_rows()),
        "steady": Row(f"pulsar-perf, single, 1 KiB, {_STEADY_RATE:,} msg/s", steady),
        "lookup-binary": Row("lookups, binary port", partial(lookups, port="binary"), 1),
        "lookup-http": Row("lookups, HTTP", partial(lookups, port="HTTP"), 1),
        "connections": Row("new connections", connections, 1),
    }


def _message_rows() -> Iterator[tuple[str, Row]]:
    for batched, kind in ((False, "single"), (True, "batched")):
        for size, shown in ((100, "100 B"), (1024, "1 KiB")):
            yield f"{kind}-{size}", Row(f"pulsar-perf, {kind}, {shown}", partial(perf, size=size, batched=batched))


def table(
    records: list[dict[str, object]], chosen: dict[str, Row], systems: Sequence[System]
) -> tuple[list[str], list[list[object]]]:
    """Return the header, and a line for each figure: plain, by TLS, and the quotient, of each server."""
    header = ["load: figure"]
    for system in systems:
        header += [f"{system.name}, plain", "by TLS", "TLS / plain"]
    lines: list[list[object]] = []
    for name, row in chosen.items():
        found = [
            (medians(records, name, system.name), medians(records, name, system.by_tls().name)) for system in systems
        ]
        for figure in found[0][0]:
            line: list[object] = [f"{row.title}: {figure}"]
            for plain, by_tls in found:
                line += [plain[figure], by_tls[figure], by_tls[figure] / plain[figure] if plain[figure] else "–"]
            lines.append(line)
    return header, lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", nargs="+", metavar="ROW", help=f"of {', '.join(rows())}; a prefix takes several")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0, help="factor for the numbers of lookups and connections")
    parser.add_argument("--key", choices=list(_KEYS), help="of the certificate (ec; beside Pulsar rsa, as Pulsar's is)")
    parser.add_argument("--beside-pulsar", action="store_true", help="the same of Apache Pulsar, too")
    arguments = parser.parse_args()
    known = rows()
    wanted = tuple(arguments.rows or known)
    if missing := [each for each in wanted if not any(name.startswith(each) for name in known)]:
        parser.error(f"no row begins with {missing[0]}; there are {', '.join(known)}")
    chosen = {name: row for name, row in known.items() if name.startswith(wanted)}
    if arguments.beside_pulsar and arguments.key == "ec":
        parser.error("beside Pulsar the key is RSA's, as Pulsar's is")
    key_title, key = _KEYS[arguments.key or ("rsa" if arguments.beside_pulsar else "ec")]
    title = f"What TLS costs, {key_title}"
    try:
        tool("openssl")
        perf_command()
        with ExitStack() as running:
            folder = Path(running.enter_context(tempfile.TemporaryDirectory(prefix="barycenter-bench-")))
            certificates = make_certificates(folder / "certificates", key)
            systems = [running.enter_context(barycenter_itself(folder, certificates))]
            if arguments.beside_pulsar:
                other = Path(running.enter_context(tempfile.TemporaryDirectory(prefix="barycenter-bench-")))
                systems.append(running.enter_context(pulsar_itself(other)))
                title += f", beside Apache Pulsar {pulsar_version()}"
            each_way = [way for system in systems for way in (system, system.by_tls())]
            load_before = os.getloadavg()[0]
            records = measure(chosen, each_way, arguments.rounds, arguments.scale)
    except PeerUnavailableError as error:
        sys.exit(f"Nothing was measured: pulsar-perf comes from Maven, and something for it is missing here. {error}")
    header, lines = table(records, chosen, systems)
    print_table(title, header, lines)
    print(f"\nMedians of {arguments.rounds}; load average {load_before:.1f} before it")


if __name__ == "__main__":
    main()
