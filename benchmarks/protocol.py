"""What the protocol costs per message on one core, without sockets.

    .venv/bin/python benchmarks/protocol.py

Each figure is the best of several runs, microseconds per message. A read holds as many SEND frames as fit into
256 KiB, as asyncio gives them to a busy broker.
"""

import timeit
from collections.abc import Callable

from pulsar_barycenter.protocol import client_commands, commands, frames
from pulsar_barycenter.protocol import pulsar_api_pb2 as api
from pulsar_barycenter.protocol.connection_state import Connection, Role

READ_SIZE = 256 * 1024


def stream(payload_size: int) -> tuple[bytes, int]:
    """Return one read's worth of SEND frames and their number."""
    metadata = api.MessageMetadata(producer_name="standalone-0-1", sequence_id=1, publish_time=1_795_207_814_998)
    entry = frames.encode_entry(metadata.SerializeToString(), bytes(payload_size))
    count = max(1, READ_SIZE // (len(entry) + 20))
    return b"".join(client_commands.send(1, 100_000 + n, entry) for n in range(count)), count


def open_connection() -> Connection:
    connection = Connection(Role.BROKER)
    connection.receive_data(client_commands.connect("bench"))
    connection.accept("bench")
    connection.data_to_send()
    return connection


def best_us(run: Callable[[], object], messages: int) -> float:
    number = max(1, 20_000 // messages)
    return min(timeit.repeat(run, number=number, repeat=7)) / number / messages * 1e6


def receive_figures(payload_size: int) -> list[tuple[str, float]]:
    data, count = stream(payload_size)
    decoder = frames.FrameDecoder()
    connection = open_connection()
    split = decoder.receive(data)

    def whole() -> None:
        sequence_ids = []
        for _, (_, sequence_id, *_), entry in connection.receive_data(data):
            frames.check_entry(entry)
            sequence_ids.append(sequence_id)
        commands.send_receipts(1, sequence_ids, (0,) * count, 7, 123456)

    def checksums() -> None:
        for _, entry in split:
            frames.verify_checksum(entry)

    return [
        ("cut into frames", best_us(lambda: decoder.receive(data), count)),
        ("  + parse SEND", best_us(lambda: connection.receive_data(data), count)),
        ("  + checksum, publish time, receipts", best_us(whole, count)),
        ("checksum alone", best_us(checksums, count)),
        ("checksum and publish time", best_us(lambda: [frames.check_entry(entry) for _, entry in split], count)),
    ]


def send_figures() -> list[tuple[str, float]]:
    reused = api.BaseCommand(type=api.BaseCommand.SEND_RECEIPT)
    receipt = reused.send_receipt
    position = receipt.message_id

    def by_protobuf() -> bytes:
        receipt.producer_id, receipt.sequence_id = 1, 100_000
        position.ledgerId, position.entryId = 7, 12345
        return commands.encode(reused)

    return [
        ("SEND_RECEIPT by hand", best_us(lambda: commands.send_receipt(1, 100_000, 7, 12345), 1)),
        ("SEND_RECEIPT, protobuf re-used", best_us(by_protobuf, 1)),
        ("MESSAGE header by hand", best_us(lambda: commands.message_header(1, 7, 12345, 100), 1)),
        ("SUCCESS, generic builder", best_us(lambda: commands.success(5), 1)),
    ]


def main() -> None:
    for payload_size in (100, 1024, 10 * 1024, 128 * 1024):
        print(f"receive, payload {payload_size} B")
        for name, figure in receive_figures(payload_size):
            print(f"  {name:38} {figure:7.2f} µs")
    print("send")
    for name, figure in send_figures():
        print(f"  {name:38} {figure:7.2f} µs")


if __name__ == "__main__":
    main()
