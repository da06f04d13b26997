"""A bundle, the unit of ownership: the topics of a namespace whose hash is in one range.

Source: Pulsar's `NamespaceBundle`.
"""

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from pulsar_barycenter.naming.errors import InvalidNameError
from pulsar_barycenter.naming.namespace import NamespaceName, is_broker_bound
from pulsar_barycenter.naming.topic import TopicName

MAX_HASH: Final = 0xFFFFFFFF
_LITERAL: Final = re.compile(r"0[xX][0-9a-fA-F]+|0|[1-9][0-9]*", re.ASCII)


def parse_boundary(text: str) -> int:
    """Return the hash that `text` represents, a hexadecimal (`0x…`) or decimal number.

    Raises:
        InvalidNameError: `text` is not such a number, or is outside 0..0xffffffff.
    """
    if _LITERAL.fullmatch(text) is None or len(text) > 34:
        raise InvalidNameError(text, "Invalid hash: it must be a number like 0x40000000")
    value = int(text, 0)
    if value > MAX_HASH:
        raise InvalidNameError(text, "Invalid hash: the largest is 0xffffffff")
    return value


@dataclass(frozen=True, slots=True, order=True)
class BundleRange:
    """A range of hashes from `lower` (inclusive) to `upper` (exclusive). The exception is `upper` = 0xffffffff, which
    is inclusive.
    """

    lower: int
    upper: int

    def __post_init__(self) -> None:
        if not 0 <= self.lower < self.upper <= MAX_HASH:
            raise InvalidNameError(
                str(self), "Invalid bundle range: its ends must satisfy 0 <= lower < upper <= 0xffffffff"
            )

    @staticmethod
    def parse(text: str) -> "BundleRange":
        """Parse a range written as `<lower>_<upper>`. Each end may be hexadecimal or decimal.

        Raises:
            InvalidNameError: the text has another form, or the range is empty.
        """
        lower, separator, upper = text.partition("_")
        if not separator:
            raise InvalidNameError(
                text, "Invalid bundle range: it must have the form LOWER_UPPER, such as 0x00000000_0x80000000"
            )
        try:
            return BundleRange(parse_boundary(lower), parse_boundary(upper))
        except InvalidNameError as error:
            raise InvalidNameError(text, f"Invalid bundle range ({error.detail})") from None

    @property
    def width(self) -> int:
        return self.upper - self.lower

    def contains(self, hash32: int) -> bool:
        return self.lower <= hash32 and (hash32 < self.upper or self.upper == MAX_HASH)

    def __str__(self) -> str:
        return f"0x{self.lower:08x}_0x{self.upper:08x}"


FULL_RANGE: Final = BundleRange(0, MAX_HASH)


@dataclass(frozen=True, slots=True, eq=False)
class Bundle:
    """A bundle: the topics of `namespace` whose hash is in `range`. Its text is `<namespace>/<range>`.

    Bundles are ordered by namespace, then by lower end.
    """

    namespace: NamespaceName
    range: BundleRange
    _text: str = field(init=False, repr=False)
    _hash: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        text = f"{self.namespace}/{self.range}"
        object.__setattr__(self, "_text", text)
        object.__setattr__(self, "_hash", hash(text))

    @staticmethod
    def parse(text: str) -> "Bundle":
        """Parse the text of a bundle, `<namespace>/<range>`.

        Raises:
            InvalidNameError: the text has another form.
        """
        namespace, separator, bundle_range = text.rpartition("/")
        if not separator:
            raise InvalidNameError(text, "Invalid bundle name: it must have the form tenant/namespace/range")
        return Bundle(NamespaceName.parse(namespace), BundleRange.parse(bundle_range))

    @staticmethod
    def full(namespace: NamespaceName) -> "Bundle":
        return Bundle(namespace, FULL_RANGE)

    def contains(self, topic: TopicName) -> bool:
        return topic.namespace == self.namespace and self.range.contains(topic.hash32)

    def __str__(self) -> str:
        return self._text

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Bundle) and self._text == other._text)

    def __lt__(self, other: "Bundle") -> bool:
        return (self.namespace, self.range) < (other.namespace, other.range)


def may_leave_its_broker(name: str) -> bool:
    """Return whether the bundle of this name is allowed to move to another broker.

    False for the bundles of heartbeat and SLA-monitor namespaces, which belong to one broker. Also False for a name
    that is not valid, such as that of a bundle whose namespace has the form from before Pulsar 2.0.
    """
    try:
        return not is_broker_bound(Bundle.parse(name).namespace)
    except InvalidNameError:
        return False


def is_of_a_broker_itself(name: str) -> bool:
    """Return whether the bundle of this name is a heartbeat or SLA-monitor bundle, which belongs to one broker."""
    return _is_of_a_broker_itself(name.rpartition("/")[0])


@lru_cache(maxsize=4_096)  # bundles are many, their namespaces few
def _is_of_a_broker_itself(namespace: str) -> bool:
    try:
        return is_broker_bound(NamespaceName.parse(namespace))
    except InvalidNameError:
        return False
