"""Counts the bytecode instructions and calls that a message costs in the broker's Python code; nothing is timed.

`python -m benchmarks message_bytecode --before CHECKOUT`: the same frames go through the data plane of one broker, of
this checkout and of another one. Each read that the broker gets is answered before the next one, and no timers run, so
that nothing depends on a clock. Work in C (parsing, checksums, system calls) counts as at most one call, whatever it
takes. `--policies` configures policies with limits that no client reaches, one after the other, each compared with
none; `--functions N` lists the functions that differ most.
"""

import argparse
import asyncio
import importlib
import json
import os
import struct
import subprocess
import sys
import tempfile
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

from crc32c import crc32c

from benchmarks.machine import print_table

_REPOSITORY: Final = Path(__file__).parents[1]
_TOPIC: Final = "persistent://public/default/counted"
_SIZES: Final = struct.Struct(">II")
_TYPE_AT: Final = 9
"""Where a frame has the number of its command's type: after both sizes and the tag of the field."""
_MESSAGE: Final = 9
"""The number of the command that has a message for a consumer."""
_LEAST_SHOWN: Final = 0.001
_FIRST_ID: Final = 1_000_000
"""The first sequence id: all of a run are encoded in the same number of bytes, as those of a long run mostly are."""
_SETTLE_S: Final = 1.5
"""How long to wait after the first messages, until the timers that they set have run."""
_READ_BYTES: Final = 65_536
"""The most that the broker reads at once; a longer entry takes several reads."""


@dataclass(frozen=True)
class Case:
    """`in_entry` messages in an entry, 1 is not batched; `in_read` entries in a read, 0 fills it."""

    title: str
    size: int = 100
    in_entry: int = 1
    in_read: int = 0
    produces: bool = True
    subscription: int | None = None
    """The type of the subscription (0 exclusive, 1 shared); None: nobody consumes."""
    policies: str = "none"


CASES: Final = {
    "single": Case("produce, single, 100 B"),
    "alone": Case("produce, single, 100 B, one in a read", in_read=1),
    "batched": Case("produce, batches of 50, 1 KiB", size=1024, in_entry=50),
    "tail": Case("produce and consume, single, 100 B", subscription=0),
    "tail-shared": Case("produce and consume, shared, single, 100 B", subscription=1),
    "tail-batched": Case("produce and consume, batches of 50, 1 KiB", size=1024, in_entry=50, subscription=0),
    "consume": Case("consume a backlog, single, 100 B", produces=False, subscription=0),
    "consume-shared": Case("consume a backlog, shared, single, 100 B", produces=False, subscription=1),
    "consume-batched": Case("consume a backlog, batches of 50, 1 KiB", 1024, 50, produces=False, subscription=0),
    "tail-alone": Case("produce and consume, single, 100 B, one in a read", in_read=1, subscription=0),
    "consume-shared-batched": Case(
        "consume a backlog, shared, batches of 50, 1 KiB", 1024, 50, produces=False, subscription=1
    ),
}
KINDS: Final = ("instructions", "calls", "calls of C functions")
_LIMITS: Final = {
    "default_retention_time_in_minutes": 60,
    "default_retention_size_in_mb": 100_000,
    "ttl_duration_default_in_seconds": 3600,
    "backlog_quota_default_limit_bytes": 1 << 36,
}
_PUBLISH_RATE: Final = {
    "max_publish_rate_per_topic_in_messages": 10_000_000,
    "max_publish_rate_per_topic_in_bytes": 10_000_000_000,
}
_TOPIC_RATE: Final = {
    "dispatch_throttling_rate_per_topic_in_msg": 10_000_000,
    "dispatch_throttling_rate_per_topic_in_byte": 10_000_000_000,
}
_SUBSCRIPTION_RATE: Final = {
    "dispatch_throttling_rate_per_subscription_in_msg": 10_000_000,
    "dispatch_throttling_rate_per_subscription_in_byte": 10_000_000_000,
}
_RATES: Final = _PUBLISH_RATE | _TOPIC_RATE | _SUBSCRIPTION_RATE
_DELAY: Final = {"delayed_delivery_max_delay_in_millis": 86_400_000}
SETTINGS: Final[Mapping[str, Mapping[str, int]]] = {
    "none": {},
    "limits": _LIMITS,
    "rates": _LIMITS | _RATES,
    "delay": _LIMITS | _RATES | _DELAY,
    "only-publish-rate": _PUBLISH_RATE,
    "only-topic-rate": _TOPIC_RATE,
    "only-subscription-rate": _SUBSCRIPTION_RATE,
    "only-delay": _DELAY,
    "only-deduplication": {"broker_deduplication_enabled": True},
    "only-pause": {"dispatcher_pause_on_ack_state_persistent_enabled": True},
    "only-group-rate": {},
    "only-size": {},
}
"""The configuration for each name of `--policies`: the first four contain those before them, others are one policy."""
RULES: Final[Mapping[str, Callable[[Any], dict[str, object]]]] = {
    "only-group-rate": lambda rules: {"group_rate": rules.GroupRate("counted", 10_000_000, 10_000_000_000)},
    "only-size": lambda _: {"max_message_size": 1 << 20},
}
"""The rules of a topic that no configuration gives; the argument is the module with `TopicRules`."""


class CodeCounts:
    """Counts the instructions and calls of the code below a folder, in all threads, between `start` and `stop`."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self.instructions: Counter[CodeType] = Counter()
        self.calls: Counter[CodeType] = Counter()
        self.calls_of_c: Counter[CodeType] = Counter()
        self._counts = False

    def install(self) -> None:
        """Trace this thread and all that start later."""
        for setters in (sys, threading):
            setters.settrace(self._traced)
            setters.setprofile(self._profiled)

    def clear(self) -> None:
        for counter in (self.instructions, self.calls, self.calls_of_c):
            counter.clear()

    def start(self) -> None:
        self._counts = True

    def stop(self) -> None:
        self._counts = False

    def _traced(self, frame: FrameType, event: str, argument: object) -> Callable[..., Any] | None:
        if not frame.f_code.co_filename.startswith(self._folder):
            return None
        if self._counts:
            self.calls[frame.f_code] += 1
        frame.f_trace_lines = False
        frame.f_trace_opcodes = True
        return self._stepped

    def _stepped(self, frame: FrameType, event: str, argument: object) -> Callable[..., Any]:
        if self._counts and event == "opcode":
            self.instructions[frame.f_code] += 1
        return self._stepped

    def _profiled(self, frame: FrameType, event: str, argument: object) -> None:
        if event == "c_call" and self._counts and frame.f_code.co_filename.startswith(self._folder):
            self.calls_of_c[frame.f_code] += 1

    def by_function(self) -> dict[str, list[int]]:
        """Return instructions, calls and calls of C functions by the file and the name of the function."""
        found: dict[str, list[int]] = {}
        for at, counter in enumerate((self.instructions, self.calls, self.calls_of_c)):
            for code, count in counter.items():
                name = f"{code.co_filename.removeprefix(self._folder)}:{code.co_qualname}"
                found.setdefault(name, [0, 0, 0])[at] += count
        return found


class CountingTransport(asyncio.Transport):
    """Takes what the broker writes, and counts its frames by the type of their commands."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 1)})
        self.frames: Counter[int] = Counter()
        self.delivered: list[bytes] = []
        """The MESSAGE commands that nobody has taken yet, without their entries."""
        self._came = asyncio.Event()

    def write(self, data: "bytes | bytearray | memoryview[Any]") -> None:
        data = bytes(data)
        start = 0
        while start < len(data):
            total, command_size = _SIZES.unpack_from(data, start)
            kind = data[start + _TYPE_AT]
            self.frames[kind] += 1
            if kind == _MESSAGE:
                self.delivered.append(data[start + _SIZES.size : start + _SIZES.size + command_size])
            start += 4 + total
        self._came.set()

    def writelines(self, parts: Sequence[bytes]) -> None:  # type: ignore[override]
        self.write(b"".join(parts))

    async def expect(self, kind: int, count: int) -> None:
        """Wait until `count` frames of this type have been written."""
        while self.frames[kind] < count:
            await self.wait()

    async def wait(self) -> None:
        """Wait until something is written.

        Raises:
            TimeoutError: the broker has written nothing for a minute.
        """
        self._came.clear()
        await asyncio.wait_for(self._came.wait(), 60)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...
    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...
    def is_closing(self) -> bool:
        return False

    def close(self) -> None: ...
    def abort(self) -> None: ...


class Frames:
    """Encodes the frames of a client with the messages of a checkout's package."""

    def __init__(self, package: str) -> None:
        self.api: Any = importlib.import_module(f"{package}.protocol.pulsar_api_pb2")

    def command(self, kind: str, **fields: object) -> bytes:
        return self._frame(kind, fields)

    def send(self, case: Case, sequence_id: int) -> bytes:
        metadata = self.api.MessageMetadata(
            producer_name="counted", sequence_id=sequence_id, publish_time=1_700_000_000_000
        )
        if case.in_entry > 1:
            metadata.num_messages_in_batch = case.in_entry
        encoded = metadata.SerializeToString()
        covered = struct.pack(">I", len(encoded)) + encoded + bytes(case.size * case.in_entry)
        entry = b"\x0e\x01" + struct.pack(">I", crc32c(covered)) + covered
        fields: dict[str, object] = {"producer_id": 1, "sequence_id": sequence_id}
        if case.in_entry > 1:
            fields["num_messages"] = case.in_entry
        return self._frame("send", fields, entry)

    def message_id(self, command: bytes) -> object:
        return self.api.BaseCommand.FromString(command).message.message_id

    def _frame(self, kind: str, fields: dict[str, object], entry: bytes = b"") -> bytes:
        command: bytes = self.api.BaseCommand(type=self.number(kind), **{kind: fields}).SerializeToString()
        return _SIZES.pack(4 + len(command) + len(entry), len(command)) + command + entry

    def number(self, kind: str) -> int:
        return int(self.api.BaseCommand.Type.Value(kind.upper()))


@dataclass(frozen=True)
class Read:
    """What the broker reads at once, or in the fewest reads that its transport makes, and the entries in it."""

    data: bytes
    entries: int


class Client:
    """The only client of a broker: a connection of the broker, and in place of the socket what counts its answers."""

    def __init__(self, frames: Frames, connection: Any) -> None:
        self._frames = frames
        self._connection = connection
        self._transport = CountingTransport()

    async def connect(self) -> None:
        self._connection.connection_made(self._transport)
        await self._request("connect", "connected", client_version="counted", protocol_version=19)

    async def attach_producer(self) -> None:
        await self._request("producer", "producer_success", topic=_TOPIC, producer_id=1, request_id=1)

    async def subscribe(self, kind: int) -> None:
        """Attach a consumer that reads from the start of the topic, without permits."""
        about = {"topic": _TOPIC, "subscription": "counted", "subType": kind, "initialPosition": 1}
        await self._request("subscribe", "success", consumer_id=1, request_id=2, **about)

    async def _request(self, kind: str, answer: str, **fields: object) -> None:
        self._connection.data_received(self._frames.command(kind, **fields))
        await self._transport.expect(self._frames.number(answer), 1)

    def permit(self, messages: int) -> None:
        self._connection.data_received(self._frames.command("flow", consumer_id=1, messagePermits=messages))

    async def produce(self, read: Read) -> None:
        """Send what the broker reads, and wait for the receipts."""
        receipt = self._frames.number("send_receipt")
        expected = self._transport.frames[receipt] + read.entries
        for start in range(0, len(read.data), _READ_BYTES):
            self._connection.data_received(read.data[start : start + _READ_BYTES])
        await self._transport.expect(receipt, expected)

    async def consume(self, entries: int) -> None:
        """Wait for this many entries, and acknowledge each of them by one command with all their ids."""
        while len(self._transport.delivered) < entries:
            await self._transport.wait()
        came = [self._frames.message_id(frame) for frame in self._transport.delivered]
        self._transport.delivered.clear()
        ack = self._frames.command("ack", consumer_id=1, ack_type=0, message_id=came)
        self._connection.data_received(ack)


def reads_of(case: Case, frames: Frames, entries: int, first: int) -> list[Read]:
    """Return reads with this many SENDs, from sequence id `first` on."""
    sends = [frames.send(case, first + number) for number in range(entries)]
    in_read = case.in_read or max(_READ_BYTES // len(sends[0]), 1)
    parts = [sends[start : start + in_read] for start in range(0, entries, in_read)]
    return [Read(b"".join(part), len(part)) for part in parts]


async def pass_messages(case: Case, client: Client, reads: Sequence[Read]) -> None:
    """Send the reads, each after the answers to the one before, and consume them as the case says."""
    for read in reads if case.produces else ():
        await client.produce(read)
        if case.subscription is not None:
            await client.consume(read.entries)
            client.permit(read.entries * case.in_entry)
    if not case.produces:
        for read in reads:
            client.permit(read.entries * case.in_entry)
            await client.consume(read.entries)


def with_rules(broker: Any, changed: Mapping[str, object]) -> None:
    """Let the topics of a broker follow some rules other than those of its configuration."""
    configured = broker.policies.rules

    async def rules(topic: object) -> object:
        return replace(await configured(topic), **changed)

    broker.policies.rules = rules


@contextmanager
def stopped_timers() -> Iterator[None]:
    """Stop the clock of the running loop, so that no timer runs, such as those that store cursors. How often they run
    for each message depends on what else the machine does.
    """
    loop: Any = asyncio.get_running_loop()
    now_s = loop.time()
    loop.time = lambda: now_s
    try:
        yield
    finally:
        del loop.time


async def count_case(case: Case, package: str, folder: str, counts: CodeCounts, messages: int) -> None:
    """Run a broker that stores in `folder`, and count while `messages` messages pass."""
    one_broker = importlib.import_module("support.one_broker")
    files = importlib.import_module(f"{package}.ledger.files.file_storage")
    config = importlib.import_module(f"{package}.config.broker_config").BrokerConfig(**SETTINGS[case.policies])
    broker = one_broker.OneBroker(config, ledgers=files.FileLedgerStorage(folder))
    rules = importlib.import_module(f"{package}.broker.namespaces.topic_rules")
    with_rules(broker, RULES[case.policies](rules) if case.policies in RULES else {})
    frames = Frames(package)
    client = Client(frames, broker.server.new_connection())
    await client.connect()
    await client.attach_producer()
    entries = messages // case.in_entry
    # The first messages, which create ledgers and fill caches, are not counted.
    first, counted = (reads_of(case, frames, entries, start) for start in (_FIRST_ID, _FIRST_ID + entries))
    if case.produces and case.subscription is not None:
        await client.subscribe(case.subscription)
        client.permit(max(read.entries for read in first) * case.in_entry)
    if not case.produces:
        for read in (*first, *counted):
            await client.produce(read)
        assert case.subscription is not None
        await client.subscribe(case.subscription)
    await pass_messages(case, client, first)
    await asyncio.sleep(_SETTLE_S)
    with stopped_timers():
        counts.start()
        await pass_messages(case, client, counted)
        counts.stop()
    await broker.stop()


def package_of(checkout: Path) -> str:
    """Return the name of the package of a checkout's brokers."""
    return next((checkout / "src").glob("*/broker/__init__.py")).parents[1].name


def count(checkout: Path, name: str, policies: Sequence[str], messages: int) -> list[dict[str, list[float]]]:
    """Count a case in a process of its own with the sources of a checkout, once for each of `policies`. The result is
    that of `CodeCounts.by_function`, for one message.
    """
    paths = os.pathsep.join(map(str, (checkout / "src", checkout / "tests", _REPOSITORY)))
    command = [sys.executable, "-m", "benchmarks.message_bytecode", "--serve", str(checkout), "--cases", name]
    command += ["--policies", *policies, "--messages", str(messages)]
    environment = {**os.environ, "PYTHONPATH": paths, "PYTHONHASHSEED": "0"}
    done = subprocess.run(command, cwd=_REPOSITORY, env=environment, stdout=subprocess.PIPE, check=True)
    found: list[dict[str, list[int]]] = json.loads(done.stdout)
    return [{function: [number / messages for number in row] for function, row in counts.items()} for counts in found]


def serve(checkout: Path, cases: Sequence[Case], messages: int) -> None:
    """Count cases of the checkout whose sources are on the path, and print the counts."""
    import structlog

    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(30))
    package = package_of(checkout)
    counts = CodeCounts(str(checkout / "src" / package) + os.sep)
    counts.install()
    found = []
    for case in cases:
        counts.clear()
        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(count_case(case, package, folder, counts, messages))
        found.append(counts.by_function())
    sys.settrace(None)
    sys.setprofile(None)
    print(json.dumps(found))


def totals(counts: Mapping[str, Sequence[float]]) -> list[float]:
    """Return instructions, calls and calls of C functions of all functions together."""
    return [sum(column) for column in zip(*counts.values(), strict=True)]


def differences(
    before: Mapping[str, Sequence[float]], after: Mapping[str, Sequence[float]], most: int
) -> list[tuple[float, str]]:
    """Return by how many instructions functions differ, the largest difference first.

    A function that moved to another file is compared by its name.
    """
    changes: defaultdict[str, float] = defaultdict(float)
    for counts, sign in ((after, 1), (before, -1)):
        for function, (instructions, _, _) in counts.items():
            changes[function.partition(":")[2]] += sign * instructions
    ranked = sorted(((change, name) for name, change in changes.items()), key=lambda row: (-abs(row[0]), row[1]))
    return [(change, name) for change, name in ranked[:most] if abs(change) >= _LEAST_SHOWN]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", nargs="+", choices=CASES, default=[*CASES], metavar="CASE", help=", ".join(CASES))
    parser.add_argument("--before", type=Path, metavar="CHECKOUT", help="the other checkout; this one if not given")
    parser.add_argument(
        "--policies", nargs="+", choices=SETTINGS, default=["none"], help="at limits that nobody reaches"
    )
    parser.add_argument("--messages", type=int, default=5000)
    parser.add_argument("--functions", type=int, default=0, metavar="N", help="list the N functions that differ most")
    parser.add_argument("--serve", type=Path, metavar="CHECKOUT", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve is not None:
        case = CASES[arguments.cases[0]]
        cases = [replace(case, policies=policies) for policies in arguments.policies]
        serve(arguments.serve, cases, arguments.messages)
        return
    rows: list[list[object]] = []
    lines: list[str] = []
    for name in arguments.cases:
        case = CASES[name]
        other = arguments.before.resolve() if arguments.before is not None else _REPOSITORY
        (before,) = count(other, name, ["none"], arguments.messages)
        counts = count(_REPOSITORY, name, arguments.policies, arguments.messages)
        for policies, after in zip(arguments.policies, counts, strict=True):
            for kind, old, new in zip(KINDS, totals(before), totals(after), strict=True):
                difference = f"{(new / old - 1) * 100:+.1f} %"
                rows.append([case.title, policies, kind, old, new, difference])
            lines += [
                f"{name}, {policies}: {change:+.3f} instructions in {function}"
                for change, function in differences(before, after, arguments.functions)
            ]
    headings = ["load", "policies", "what", "before: none", "now", "difference"]
    print_table("Counts for one message", headings, rows)
    print("\n".join(("", *lines)))


if __name__ == "__main__":
    main()
