import pytest

from pulsar_barycenter.naming.bundle import FULL_RANGE, MAX_HASH, Bundle, BundleRange
from pulsar_barycenter.naming.bundles import MAX_BUNDLES, NamespaceBundles
from pulsar_barycenter.naming.errors import InvalidBundlesError, InvalidNameError, InvalidSplitError, UnknownBundleError
from pulsar_barycenter.naming.namespace import NamespaceName
from pulsar_barycenter.naming.topic import TopicName

NAMESPACE = NamespaceName.parse("t/ns")


def test_a_range_is_written_in_eight_digits_and_read_from_any_literal() -> None:
    assert str(BundleRange(0, 0x40000000)) == "0x00000000_0x40000000"
    for text in ("0x00000000_0x40000000", "0x0_0x40000000", "0_1073741824", "0X0_0X40000000"):
        assert BundleRange.parse(text) == BundleRange(0, 0x40000000)
    assert BundleRange.parse("0x00000000_0xFFFFFFFF") == FULL_RANGE


@pytest.mark.parametrize(
    "text",
    ["", "0x0", "_", "0x0_", "0x0_0x0", "0x4_0x3", "0x0_0x100000000", "-1_5", "0x0_0x1_0x2", "x_y", "0b0_0b1", "1__2"],
)
def test_other_ranges_are_refused(text: str) -> None:
    with pytest.raises(InvalidNameError):
        BundleRange.parse(text)


def test_the_upper_end_is_exclusive_but_for_the_last_hash() -> None:
    lower, last = BundleRange(0, 0x80000000), BundleRange(0x80000000, MAX_HASH)
    assert lower.contains(0)
    assert lower.contains(0x7FFFFFFF)
    assert not lower.contains(0x80000000)
    assert last.contains(0x80000000)
    assert last.contains(MAX_HASH)


def test_a_bundle_is_named_by_namespace_and_range() -> None:
    bundle = Bundle.parse("t/ns/0x00000000_0xffffffff")
    assert bundle == Bundle.full(NAMESPACE)
    assert str(bundle) == "t/ns/0x00000000_0xffffffff"
    assert Bundle.parse("t/c/ns/0x0_0x10").namespace.cluster == "c"
    assert bundle.contains(TopicName.parse("t/ns/x"))
    assert not bundle.contains(TopicName.parse("t/other/x"))
    with pytest.raises(InvalidNameError):
        Bundle.parse("nothing")


@pytest.mark.parametrize(
    ("count", "boundaries"),
    [
        (1, "00000000 ffffffff"),
        (2, "00000000 80000000 ffffffff"),
        (3, "00000000 55555555 aaaaaaaa ffffffff"),
        (4, "00000000 40000000 80000000 c0000000 ffffffff"),
    ],
)
def test_equal_bundles_leave_the_remainder_to_the_last(count: int, boundaries: str) -> None:
    bundles = NamespaceBundles.equal(NAMESPACE, count)
    assert bundles.boundary_texts() == [f"0x{edge}" for edge in boundaries.split()]
    assert len(bundles) == count


def test_the_fourth_boundary_of_ten_bundles_is_that_of_the_reference() -> None:
    assert NamespaceBundles.equal(NAMESPACE, 10).boundaries[3] == 0x4CCCCCCB


@pytest.mark.parametrize("count", [0, -1, MAX_BUNDLES + 1, 2**32 + 1])
def test_a_number_of_bundles_out_of_range_is_refused(count: int) -> None:
    with pytest.raises(InvalidBundlesError, match="Invalid number of bundles"):
        NamespaceBundles.equal(NAMESPACE, count)


def test_boundaries_are_sorted_and_deduplicated() -> None:
    bundles = NamespaceBundles.from_boundaries(NAMESPACE, ["0xffffffff", "0x0", "0x40000000", "1073741824", 0])
    assert bundles.boundaries == (0, 0x40000000, MAX_HASH)


@pytest.mark.parametrize(
    "boundaries", [[], ["0x0"], ["0x0", "0x80000000"], ["0x1", "0xffffffff"], ["a", "b"], ["0x0", "0x1ffffffff"]]
)
def test_boundaries_that_do_not_cover_the_range_are_refused(boundaries: list[str]) -> None:
    with pytest.raises(InvalidBundlesError):
        NamespaceBundles.from_boundaries(NAMESPACE, boundaries)


def test_the_last_hash_belongs_to_the_last_bundle() -> None:
    bundles = NamespaceBundles.equal(NAMESPACE, 4)
    assert bundles.find_hash(MAX_HASH) == bundles.bundles[-1]
    assert bundles.find_hash(0) == bundles.bundles[0]
    assert bundles.find_hash(0x40000000) == bundles.bundles[1]
    assert bundles.find_hash(0x3FFFFFFF) == bundles.bundles[0]


def test_a_topic_of_another_namespace_is_not_found() -> None:
    with pytest.raises(ValueError, match="belongs to another namespace"):
        NamespaceBundles.full(NAMESPACE).find(TopicName.parse("t/other/x"))


def test_only_a_whole_bundle_of_now_is_valid() -> None:
    bundles = NamespaceBundles.equal(NAMESPACE, 4)
    assert bundles.validate(BundleRange(0, 0x40000000)) == bundles.bundles[0]
    for bundle_range in (FULL_RANGE, BundleRange(0, 0x80000000), BundleRange(1, 0x40000000), BundleRange(1, 2)):
        with pytest.raises(UnknownBundleError):
            bundles.validate(bundle_range)


@pytest.mark.parametrize(("lower", "upper", "cut"), [(0, MAX_HASH, 0x7FFFFFFF), (0x80000000, MAX_HASH, 0xBFFFFFFF)])
def test_halving_uses_the_written_upper_end(lower: int, upper: int, cut: int) -> None:
    """Two new bundles meet at 0x80000000, but the full bundle is split at 0x7fffffff."""
    count = 1 if lower == 0 else 2
    bundles = NamespaceBundles.equal(NAMESPACE, count, version=7)
    split, children = bundles.split(Bundle(NAMESPACE, BundleRange(lower, upper)))
    assert [child.range for child in children] == [BundleRange(lower, cut), BundleRange(cut, upper)]
    assert split.version == 7
    assert len(split) == count + 1


def test_a_bundle_is_split_at_given_positions() -> None:
    bundles = NamespaceBundles.equal(NAMESPACE, 2)
    split, children = bundles.split(bundles.bundles[0], [0x30000000, 0x10000000])
    assert split.boundary_texts() == ["0x00000000", "0x10000000", "0x30000000", "0x80000000", "0xffffffff"]
    assert len(children) == 3


@pytest.mark.parametrize("position", [0, 0x80000000, 0x90000000, -1])
def test_a_position_outside_the_bundle_is_refused(position: int) -> None:
    bundles = NamespaceBundles.equal(NAMESPACE, 2)
    with pytest.raises(InvalidSplitError, match="must between the key range"):
        bundles.split(bundles.bundles[0], [position])


def test_a_bundle_of_one_hash_or_of_another_version_is_not_split() -> None:
    narrow = NamespaceBundles(NAMESPACE, (0, 1, MAX_HASH))
    with pytest.raises(InvalidSplitError):
        narrow.split(narrow.bundles[0])
    for bundle in (Bundle.full(NAMESPACE), Bundle(NamespaceName.parse("t/other"), BundleRange(0, 1))):
        with pytest.raises(UnknownBundleError):
            narrow.split(bundle)
