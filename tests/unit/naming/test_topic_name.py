import pytest

from pulsar_barycenter.config.broker_conf import keys
from pulsar_barycenter.naming import topic as topics
from pulsar_barycenter.naming.bundles import MAX_BUNDLES
from pulsar_barycenter.naming.errors import InvalidNameError
from pulsar_barycenter.naming.namespace import MAX_ENTITY_NAME, NamespaceName
from pulsar_barycenter.naming.topic import (
    MAX_LOCAL_NAME_BYTES,
    MAX_PARTITIONS,
    TopicName,
    check_local_name,
    decode_local_name,
    encode_local_name,
    is_system_topic,
)


@pytest.mark.parametrize(
    ("name", "hash32"),
    [
        ("persistent://public/default/my-topic", 0x2BAD45F7),
        ("persistent://public/default/my-topic-partition-0", 0x3D4B4235),
        ("persistent://public/default/my-topic-partition-1", 0x4A4C72A3),
        ("non-persistent://public/default/my-topic", 0x831E214A),
        ("persistent://my-tenant/my-ns/orders", 0xE45B9DCE),
    ],
)
def test_the_hash_of_a_topic_is_the_crc32_of_its_canonical_name(name: str, hash32: int) -> None:
    assert TopicName.parse(name).hash32 == hash32


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("my-topic", "persistent://public/default/my-topic"),
        ("/my-topic/", "persistent://public/default/my-topic"),
        ("t/ns/my-topic", "persistent://t/ns/my-topic"),
        ("PERSISTENT://t/ns/My-Topic", "persistent://t/ns/My-Topic"),
        ("Non-Persistent://t/ns/x", "non-persistent://t/ns/x"),
        ("persistent://t/c/ns/a/b//c", "persistent://t/c/ns/a/b//c"),
        ("persistent://t/ns/any thing?#%2F:ü", "persistent://t/ns/any thing?#%2F:ü"),
        ("persistent://t/ns/a://b", "persistent://t/ns/a://b"),
    ],
)
def test_every_form_has_one_canonical_name(text: str, canonical: str) -> None:
    topic = TopicName.parse(text)
    assert str(topic) == canonical
    assert TopicName.parse(canonical) == topic


@pytest.mark.parametrize(
    "text",
    [
        "",
        "/",
        "a/b",
        "a/b/c/d",
        "http://t/ns/x",
        "persistent://t/ns",
        "persistent://t/ns/",
        "persistent://t/ns/  ",
        "persistent://t//x",
        "persistent://t//ns/x",
        "persistent:///ns/x",
        "persistent://t/n s/x",
        "persistent://tä/ns/x",
        "persistent://t/c$/ns/x",
        "persistent://t/ns/\ud800",
    ],
)
def test_other_names_are_refused(text: str) -> None:
    with pytest.raises(InvalidNameError):
        TopicName.parse(text)


def test_a_legacy_name_has_a_cluster_and_slashes_in_its_local_name() -> None:
    topic = TopicName.parse("persistent://t/c/ns/a/b")
    assert (topic.namespace.cluster, topic.namespace.local_name, topic.local_name) == ("c", "ns", "a/b")
    assert topic.lookup_name == "persistent/t/c/ns/a%2Fb"
    assert topic.persistence_name == "t/c/ns/persistent/a%2Fb"


@pytest.mark.parametrize(
    ("local_name", "index", "base"),
    [
        ("x-partition-0", 0, "x"),
        ("x-partition-17", 17, "x"),
        ("x-partition-1-partition-2", 2, "x-partition-1"),
        ("x-partition-2147483647", 2147483647, "x"),
        ("x-partition-2147483648", -1, None),
        ("x-partition-01", -1, None),
        ("x-partition--1", -1, None),
        ("x-partition-+1", -1, None),
        ("x-partition-a", -1, None),
        ("x-partition-", -1, None),
        ("x-partition-١", -1, None),
        ("-partition-1", -1, None),
        ("x-partition-1-partition-01", -1, None),
        ("x", -1, None),
    ],
)
def test_a_partition_is_known_by_a_plain_number_behind_the_last_suffix(
    local_name: str, index: int, base: str | None
) -> None:
    topic = TopicName.parse(f"persistent://t/ns/{local_name}")
    assert topic.partition_index == index
    assert topic.partitioned_name.local_name == (base or local_name)


def test_a_partition_of_a_topic_has_the_suffix_once() -> None:
    topic = TopicName.parse("persistent://t/ns/x")
    assert str(topic.partition(3)) == "persistent://t/ns/x-partition-3"
    assert topic.partition(3).partition(3) is topic.partition(3)
    assert topic.partition(-1) is topic
    with pytest.raises(ValueError, match="must not be negative"):
        topic.partition(-2)


@pytest.mark.parametrize(
    ("local_name", "encoded"),
    [("a b", "a+b"), ("a/b", "a%2Fb"), ("a~b", "a%7Eb"), ("a*b.c-d_e", "a*b.c-d_e"), ("ü", "%C3%BC"), ("+", "%2B")],
)
def test_local_names_are_encoded_as_java_does(local_name: str, encoded: str) -> None:
    assert encode_local_name(local_name) == encoded
    assert decode_local_name(encoded) == local_name
    topic = TopicName.of("persistent", NamespaceName.parse("t/c/ns"), local_name)
    assert topic.persistence_name == f"t/c/ns/persistent/{encoded}"
    assert topic.lookup_name == f"persistent/t/c/ns/{encoded}"


def test_only_a_legacy_local_name_has_slashes() -> None:
    """Joined to a text, `t/ns` and `a/b` would read as the namespace `t/ns/a`."""
    with pytest.raises(InvalidNameError):
        TopicName.of("persistent", NamespaceName.parse("t/ns"), "a/b")


def test_an_encoding_that_is_not_utf8_is_refused() -> None:
    with pytest.raises(InvalidNameError):
        decode_local_name("%FF")


def test_equal_topics_are_one_key() -> None:
    name = "persistent://t/ns/x"
    parsed, made = TopicName.parse(name), TopicName("persistent", NamespaceName.parse("t/ns"), "x")
    assert parsed == made
    assert parsed is not made
    assert {parsed: 1}[made] == 1
    assert parsed != name
    assert sorted([TopicName.parse("b"), TopicName.parse("a")])[0].local_name == "a"


@pytest.mark.parametrize(
    ("name", "is_system"),
    [
        ("persistent://t/ns/__change_events", True),
        ("persistent://t/ns/__change_events-partition-0", True),
        ("persistent://t/ns/s__transaction_pending_ack", True),
        ("persistent://pulsar/system/anything", True),
        ("persistent://pulsar/127.0.0.1:8080/healthcheck", True),
        ("persistent://t/ns/__mine", False),
        ("persistent://pulsar/other/x", False),
    ],
)
def test_system_topics_are_known_by_name(name: str, is_system: bool) -> None:
    assert is_system_topic(TopicName.parse(name)) is is_system


@pytest.mark.parametrize(
    "text",
    [
        "x" * (MAX_LOCAL_NAME_BYTES + 1),
        "ü" * (MAX_LOCAL_NAME_BYTES // 2 + 1),
        "x" * (MAX_LOCAL_NAME_BYTES + 1) + "-partition-3",
        "x" * 2_000_000,
        "t/" + "n" * (MAX_ENTITY_NAME + 1) + "/x",
        "t" * 2_000_000 + "/n/x",
        "a\0b",
        "..",
        "t/../x",
    ],
)
def test_a_name_is_of_bounded_length_and_can_be_said_in_a_path(text: str) -> None:
    with pytest.raises(InvalidNameError) as caught:
        TopicName.parse(text)
    assert len(str(caught.value)) < 1_000


def test_the_longest_names_that_can_be() -> None:
    longest = "t" * MAX_ENTITY_NAME + "/" + "n" * MAX_ENTITY_NAME + "/" + "ü" * (MAX_LOCAL_NAME_BYTES // 2)
    assert TopicName.parse(longest).partition(MAX_PARTITIONS).partitioned_name == TopicName.parse(longest)
    for bad in ("", "x" * (MAX_LOCAL_NAME_BYTES + 1), "a\0b", "."):
        with pytest.raises(InvalidNameError):
            check_local_name("subscription", bad)


def test_names_that_are_remembered_are_short() -> None:
    before = topics._remembered.cache_info().currsize
    for number in range(100):
        TopicName.parse("x" * 900 + str(number))
        TopicName.parse("\U0001f4a9" * 100 + str(number))
    assert topics._remembered.cache_info().currsize == before
    assert topics._remembered.cache_info().maxsize is not None


def test_the_configuration_allows_what_names_allow() -> None:
    assert keys()["defaultNumPartitions"].at_most == MAX_PARTITIONS
    assert keys()["defaultNumberOfNamespaceBundles"].at_most == MAX_BUNDLES
