"""Names read back as themselves, and bundles tile the hash range before and after any splits."""

import string
from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

from pulsar_barycenter.naming.bundle import MAX_HASH, Bundle, BundleRange
from pulsar_barycenter.naming.bundles import NamespaceBundles
from pulsar_barycenter.naming.errors import InvalidNameError
from pulsar_barycenter.naming.namespace import RESERVED_PATH_SEGMENTS, NamespaceName
from pulsar_barycenter.naming.topic import TopicName, decode_local_name

ENTITY = st.text(string.ascii_letters + string.digits + "_-=:.", min_size=1, max_size=8).filter(
    lambda text: text not in RESERVED_PATH_SEGMENTS
)
NAMESPACES = st.builds(NamespaceName.of, ENTITY, ENTITY)
LOCAL_NAMES = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=20
).filter(lambda text: text not in RESERVED_PATH_SEGMENTS and text.strip() and "/" not in text)
TOPICS = st.builds(TopicName.of, st.sampled_from(["persistent", "non-persistent"]), NAMESPACES, LOCAL_NAMES)
HASHES = st.integers(0, MAX_HASH)
RANGES = st.tuples(HASHES, HASHES).filter(lambda ends: ends[0] != ends[1]).map(lambda ends: BundleRange(*sorted(ends)))


@given(TOPICS)
def test_a_topic_reads_back_as_itself(topic: TopicName) -> None:
    assert TopicName.parse(str(topic)) == topic
    assert decode_local_name(topic.encoded_local_name) == topic.local_name
    assert topic.partition(5).partitioned_name in (topic, topic.partitioned_name)


@given(NAMESPACES, RANGES)
def test_namespaces_ranges_and_bundles_read_back_as_themselves(namespace: NamespaceName, span: BundleRange) -> None:
    assert NamespaceName.parse(str(namespace)) == namespace
    assert BundleRange.parse(str(span)) == span
    assert Bundle.parse(str(Bundle(namespace, span))) == Bundle(namespace, span)


@given(st.text(max_size=30))
def test_any_text_is_a_name_or_refused(text: str) -> None:
    for parse in (TopicName.parse, NamespaceName.parse, Bundle.parse, BundleRange.parse):
        with suppress(InvalidNameError):
            parse(text)


def assert_tiles(bundles: NamespaceBundles) -> None:
    assert bundles.bundles[0].range.lower == 0
    assert bundles.bundles[-1].range.upper == MAX_HASH
    for left, right in zip(bundles.bundles, bundles.bundles[1:], strict=False):
        assert left.range.upper == right.range.lower


@given(st.integers(1, 300), st.lists(st.tuples(HASHES, st.integers(2, 5)), max_size=12), st.lists(HASHES, max_size=20))
def test_bundles_tile_the_hash_range_before_and_after_splits(
    count: int, splits: list[tuple[int, int]], probes: list[int]
) -> None:
    bundles = NamespaceBundles.equal(NamespaceName.parse("t/ns"), count)
    assert_tiles(bundles)
    for hash32, parts in splits:
        target = bundles.find_hash(hash32)
        if target.range.width < parts:
            continue
        before, (bundles, children) = bundles, bundles.split(target, parts=parts)
        assert_tiles(bundles)
        assert len(children) == parts
        assert (children[0].range.lower, children[-1].range.upper) == (target.range.lower, target.range.upper)
        assert set(bundles.bundles) - set(before.bundles) == set(children)
    for hash32 in (*probes, 0, MAX_HASH):
        holders = [bundle for bundle in bundles.bundles if bundle.range.contains(hash32)]
        assert holders == [bundles.find_hash(hash32)]


@given(st.sets(st.integers(1, MAX_HASH - 1), max_size=30), st.data())
def test_any_boundaries_tile_and_positions_cut_where_they_say(inner: set[int], data: st.DataObject) -> None:
    bundles = NamespaceBundles.from_boundaries(NamespaceName.parse("t/ns"), [*inner, 0, MAX_HASH])
    assert_tiles(bundles)
    assert bundles.boundaries == tuple(sorted({0, MAX_HASH, *inner}))
    target = data.draw(st.sampled_from(bundles.bundles))
    inside = st.integers(target.range.lower + 1, target.range.upper - 1)
    cuts = data.draw(st.sets(inside, min_size=1, max_size=4)) if target.range.width > 1 else set()
    if cuts:
        split, children = bundles.split(target, sorted(cuts))
        assert_tiles(split)
        assert set(split.boundaries) == set(bundles.boundaries) | cuts
        assert len(children) == len(cuts) + 1
