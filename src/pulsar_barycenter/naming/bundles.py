"""All bundles of a namespace: they always cover the whole hash range without gaps.

Source: Pulsar's `NamespaceBundles` and `NamespaceBundleFactory.splitBundles`.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from pulsar_barycenter.naming.bundle import MAX_HASH, Bundle, BundleRange, parse_boundary
from pulsar_barycenter.naming.errors import InvalidBundlesError, InvalidNameError, InvalidSplitError, UnknownBundleError
from pulsar_barycenter.naming.namespace import NamespaceName
from pulsar_barycenter.naming.topic import TopicName

MAX_BUNDLES: Final = 1 << 14
"""The maximum number of bundles of a namespace. Pulsar allows 2^32, a list that no broker can keep in memory."""


@dataclass(frozen=True, slots=True)
class NamespaceBundles:
    """The bundles of a namespace. `boundaries` are hashes that increase from 0 to 0xffffffff; each two neighbouring
    hashes are the ends of one bundle.

    `version` is the version of the namespace's local-policies record in the metadata store, from which the boundaries
    were read, or None if there is no record. A split keeps `version`: the new boundaries are written only if the record
    still has this version.
    """

    namespace: NamespaceName
    boundaries: tuple[int, ...]
    version: int | None = None
    bundles: tuple[Bundle, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        edges = self.boundaries
        if len(edges) < 2 or edges[0] != 0 or edges[-1] != MAX_HASH:
            raise InvalidBundlesError(
                f"Input bundles do not cover the whole hash range. "
                f"first:{_text(edges[0]) if edges else None}, last:{_text(edges[-1]) if edges else None}"
            )
        if any(lower >= upper for lower, upper in pairwise(edges)):
            raise InvalidBundlesError("Bundle boundaries must increase from 0x00000000 to 0xffffffff")
        bundles = tuple(Bundle(self.namespace, BundleRange(lower, upper)) for lower, upper in pairwise(edges))
        object.__setattr__(self, "bundles", bundles)

    @staticmethod
    def equal(namespace: NamespaceName, count: int, version: int | None = None) -> "NamespaceBundles":
        """Return `count` bundles of equal width; the last one is wider if the hash range cannot be divided evenly.
        `version` is that of the namespace's record in the metadata store; None: there is no record.

        Raises:
            InvalidBundlesError: `count` is below 1 or above MAX_BUNDLES.
        """
        if not 1 <= count <= MAX_BUNDLES:
            raise InvalidBundlesError(
                "Invalid number of bundles. Number of bundles has to be in the range of (0, 2^32]"
                + (f", and in this cluster at most {MAX_BUNDLES}" if count > MAX_BUNDLES else "")
            )
        width = 2**32 // count
        return NamespaceBundles(namespace, (*(width * index for index in range(count)), MAX_HASH), version)

    @staticmethod
    def full(namespace: NamespaceName) -> "NamespaceBundles":
        """Return the bundles of a namespace that has no record of its bundles: one bundle with the whole hash range."""
        return NamespaceBundles(namespace, (0, MAX_HASH))

    @staticmethod
    def from_boundaries(
        namespace: NamespaceName, boundaries: Iterable[str | int], version: int | None = None
    ) -> "NamespaceBundles":
        """Return the bundles between the given boundaries: hashes as numbers or texts, in any order. Duplicates are
        ignored. `version` is that of the namespace's record in the metadata store; None: there is no record.

        Raises:
            InvalidBundlesError: a boundary is not a hash, or 0x00000000 or 0xffffffff is missing among them.
        """
        try:
            edges = {edge if isinstance(edge, int) else parse_boundary(edge) for edge in boundaries}
        except InvalidNameError as error:
            raise InvalidBundlesError(str(error)) from None
        return NamespaceBundles(namespace, tuple(sorted(edges)), version)

    def find(self, topic: TopicName) -> Bundle:
        """Return the bundle of a topic of this namespace.

        Raises:
            ValueError: the topic belongs to another namespace.
        """
        if topic.namespace is not self.namespace and topic.namespace != self.namespace:
            raise ValueError(f"topic {topic} belongs to another namespace, not to {self.namespace}")
        return self.find_hash(topic.hash32)

    def find_hash(self, hash32: int) -> Bundle:
        """Return the bundle whose range contains the hash. 0xffffffff belongs to the last bundle."""
        bundles = self.bundles
        return bundles[bisect_right(self.boundaries, hash32, 0, len(bundles)) - 1]

    def validate(self, bundle_range: BundleRange) -> Bundle:
        """Return the bundle with exactly this range.

        Raises:
            UnknownBundleError: no bundle has this range.
        """
        return self.bundles[self._index(bundle_range)]

    def boundary_texts(self) -> list[str]:
        return [_text(edge) for edge in self.boundaries]

    def split(
        self, target: Bundle, positions: Sequence[int] | None = None, parts: int = 2
    ) -> tuple["NamespaceBundles", list[Bundle]]:
        """Return all bundles of the namespace as they are after a split of `target`, and the new bundles that replace
        `target`, ordered by their ranges. This object is not changed.

        `target` is cut at the hashes `positions`, or, without them, into `parts` bundles of equal width.

        Raises:
            UnknownBundleError: `target` is not one of these bundles.
            InvalidSplitError: `target` is too narrow, or a position is not strictly inside it.
        """
        index = self._index(target.range) if target.namespace == self.namespace else None
        if index is None:
            raise UnknownBundleError(self.namespace, target)
        cuts = _cuts(target, positions, parts)
        boundaries = (*self.boundaries[: index + 1], *cuts, *self.boundaries[index + 1 :])
        result = NamespaceBundles(self.namespace, boundaries, self.version)
        return result, list(result.bundles[index : index + len(cuts) + 1])

    def _index(self, bundle_range: BundleRange) -> int:
        index = bisect_left(self.boundaries, bundle_range.lower)
        if index < len(self.bundles) and self.bundles[index].range == bundle_range:
            return index
        raise UnknownBundleError(self.namespace, bundle_range)

    def __len__(self) -> int:
        return len(self.bundles)


def _cuts(target: Bundle, positions: Sequence[int] | None, parts: int) -> list[int]:
    lower, upper, width = target.range.lower, target.range.upper, target.range.width
    if width <= 1:
        raise InvalidSplitError(
            target, "the range of the bundle has only one hash, and each part of a split needs at least one"
        )
    if positions:
        outside = [position for position in positions if not lower < position < upper]
        if outside:
            raise InvalidSplitError(
                target, f"The given fixed key must between the key range of the {target} bundle, unlike {outside}"
            )
        return sorted(set(positions))
    if not 2 <= parts <= width:
        raise InvalidSplitError(target, f"a range of {width} hashes cannot be split into {parts} parts")
    return [lower + width // parts * k for k in range(1, parts)]


def _text(edge: int) -> str:
    return f"0x{edge:08x}"
