"""What a split algorithm is asked, and when it refuses."""

from dataclasses import dataclass

from barycenter.naming.bundle import BundleRange


class SplitRefusedError(ValueError):
    """The algorithm cannot be applied to what was given; the text says what is missing."""


@dataclass(frozen=True, slots=True)
class SplitRequest:
    """`hashes` are those of the topics loaded in the bundle, in any order; `positions` those an administrator named."""

    range: BundleRange
    hashes: tuple[int, ...] = ()
    positions: tuple[int, ...] = ()


def can_divide(bundle_range: BundleRange) -> bool:
    """Tell whether the range holds more than one hash to part. Source: `NamespaceBundleFactory.canSplitBundle`."""
    return bundle_range.upper - bundle_range.lower > 1
