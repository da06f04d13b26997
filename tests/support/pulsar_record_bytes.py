"""What Pulsar's own classes store: tests/data/pulsar_records/bytes.txt, made by java/PulsarRecordBytes.java of 4.2.4.

`tests/peer/test_pulsar_records.py` compiles and runs that program again, with 4.x and 5.x, and compares.
"""

from pathlib import Path
from typing import Final

from support.bookkeeper_bytes import parsed

FILE: Final = Path(__file__).parents[1] / "data" / "pulsar_records" / "bytes.txt"
COMPRESSIONS: Final = ("NONE", "LZ4", "ZLIB", "ZSTD", "SNAPPY")


def java_records() -> dict[str, bytes]:
    """Return what Java wrote, by name."""
    return parsed(FILE.read_text())
