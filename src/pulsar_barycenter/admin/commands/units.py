"""Sizes and times as `pulsar-admin` reads them: 10M, 16G; 100m, 3h, 2d.

Source: Pulsar's `ByteUnitUtil` and `RelativeTimeUtil`.
"""

import re
from typing import Final

from pulsar_barycenter.admin.commands.table import WrongUsageError

_SIZES: Final = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_TIMES: Final = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400, "y": 365 * 86_400}
_LARGEST: Final = 2**63 - 1
_NUMBER: Final = re.compile(r"([+-]?\d{1,19})([a-z]?)", re.ASCII)


def bytes_of(option: str, text: str) -> int:
    """Return the value of `option`, a size such as 4096, 100K, 10M, 16G or 2T, in bytes. The case is ignored.

    Raises:
        WrongUsageError: the text is no such size.
    """
    return _product(option, text, _SIZES, "bytes, such as 4096, 100K, 10M, 16G or 2T")


def seconds_of(option: str, text: str) -> int:
    """Return the value of `option`, a time such as 120, 100m, 3h, 2d, 5w or 1y, in seconds. The case is ignored.

    Raises:
        WrongUsageError: the text is no such time.
    """
    return _product(option, text, _TIMES, "seconds, or a time such as 100m, 3h, 2d or 5w")


def _product(option: str, text: str, units: dict[str, int], wanted: str) -> int:
    parts = _NUMBER.fullmatch(text.strip().lower())
    if parts is None or parts[2] not in units:
        raise WrongUsageError(f"{option} is {text!r}: give {wanted}")
    value = int(parts[1]) * units[parts[2]]
    if abs(value) > _LARGEST:
        raise WrongUsageError(f"{option} is {text!r}: give a value of at most 2^63 - 1")
    return value
