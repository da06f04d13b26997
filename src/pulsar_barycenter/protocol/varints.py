"""Encodes numbers as base-128 varints, as protobuf does: two bytes a step from tables, and many consecutive numbers at
once.
"""

from typing import Final

_BLOCK: Final = 1 << 14
"""The size of a block of consecutive numbers whose varints differ in the first two bytes only, or have at most two
bytes.
"""


def _varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


_LAST: Final = tuple(_varint(n) for n in range(_BLOCK))
_MORE: Final = tuple(bytes((n & 0x7F | 0x80, n >> 7 | 0x80)) for n in range(_BLOCK))


def varint(number: int) -> bytes:
    """Return the base-128 varint of `number` (0 ≤ number < 2^64)."""
    if number < 16384:
        return _LAST[number]
    if number < 268435456:
        return _MORE[number & 16383] + _LAST[number >> 14]
    return _MORE[number & 16383] + varint(number >> 14)


def varints(first: int, count: int) -> list[bytes]:
    """Return the varints of the numbers `first`, `first + 1` and so on, `count` in all."""
    found: list[bytes] = []
    stop = first + count
    while first < stop:
        low = first & (_BLOCK - 1)
        if first < _BLOCK:
            found += _LAST[low : low + stop - first]
        else:
            last = varint(first >> 14)
            found += [two + last for two in _MORE[low : low + stop - first]]
        first += _BLOCK - low
    return found


def joined_varints(first: int, count: int) -> bytes:
    """Return the varints of the numbers `first`, `first + 1` and so on, `count` in all, concatenated."""
    joined: list[bytes] = []
    stop = first + count
    while first < stop:
        low = first & (_BLOCK - 1)
        if first < _BLOCK:
            joined += _LAST[low : low + stop - first]
        else:
            last = varint(first >> 14)
            joined += (last.join(_MORE[low : low + stop - first]), last)
        first += _BLOCK - low
    return b"".join(joined)


def last_of_width(number: int) -> int:
    """Return the highest number whose varint has the same number of bytes as the varint of `number`."""
    return (1 << 7 * len(varint(number))) - 1
