"""A process that appends numbers to a ledger without end and prints each id once it is reported as durable.

Arguments: folder, ledger id, epoch. A line "fenced" is the last one if a later owner stops it.
"""

import asyncio
import sys

from pulsar_barycenter.ledger.errors import LedgerError
from pulsar_barycenter.ledger.files.file_storage import FileLedgerStorage

IN_FLIGHT = 64


async def main(folder: str, ledger_id: int, epoch: int) -> None:
    storage = FileLedgerStorage(folder)
    reported = asyncio.Event()
    last, failed = -1, False

    def on_durable(entry_id: int, error: LedgerError | None) -> None:
        nonlocal last, failed
        if error is None:
            last = entry_id
            print(entry_id, flush=True)
        else:
            failed = True
            print("fenced", flush=True)
        reported.set()

    writer = await storage.create(ledger_id, epoch=epoch, on_durable=on_durable)
    number = 0
    while not failed:
        while number - last <= IN_FLIGHT:
            writer.append(b"entry %d" % number * (number % 40 + 1), 1, number)
            number += 1
        reported.clear()
        await reported.wait()
    await storage.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
