"""What BookKeeper 4.17.3's own classes wrote: tests/data/bookkeeper/bytes.txt, made by java/BookKeeperBytes.java.

`tests/peer/test_real_bookies.py` compiles and runs that program again, and compares.
"""

from pathlib import Path
from typing import Final

FILE: Final = Path(__file__).parents[1] / "data" / "bookkeeper" / "bytes.txt"
LEDGER: Final = 0x1122334455
PASSWORD: Final = b"secret"
DATA: Final = b"0123456789"


def java_bytes() -> dict[str, bytes]:
    """Return what Java wrote, by name."""
    return parsed(FILE.read_text())


def parsed(lines: str) -> dict[str, bytes]:
    """Return the bytes of lines of a name and hexadecimal digits."""
    return {name: bytes.fromhex(digits) for name, _, digits in (line.partition(" ") for line in lines.splitlines())}
