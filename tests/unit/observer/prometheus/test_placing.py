"""The bundle of a topic by its name, sums of rates by bundle, and the owner of a bundle while it moves."""

import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsar_barycenter.naming.bundle import Bundle
from pulsar_barycenter.naming.bundles import NamespaceBundles
from pulsar_barycenter.naming.namespace import NamespaceName
from pulsar_barycenter.observer.prometheus.placing import BundlePlacing, TopicPlacing, boundaries_of
from pulsar_barycenter.observer.prometheus.reports import broker_id, owner_of
from pulsar_barycenter.observer.prometheus.series import ImportRefusedError, Series, Window
from pulsar_barycenter.observer.prometheus.window import WindowSums

NAME = NamespaceName.parse("t/n")
FULL = 0xFFFFFFFF
edges = st.sets(st.integers(1, FULL - 1), max_size=6).map(lambda cuts: (0, *sorted(cuts), FULL))
topics = st.from_regex(r"[a-z][a-z0-9-]{0,12}", fullmatch=True).map(lambda name: f"persistent://t/n/{name}")


@settings(max_examples=40)
@given(edges, topics, st.one_of(st.none(), st.integers(0, 20)))
def test_a_topic_is_in_the_bundle_of_the_hash_of_its_name(cuts: tuple[int, ...], topic: str, part: int | None) -> None:
    placing = TopicPlacing({"t/n": NamespaceBundles(NAME, cuts)})
    metric = {"topic": topic, "partition": "-1" if part is None else str(part)}
    name = placing.name_of(metric)
    assert name == (topic if part is None else f"{topic}-partition-{part}")
    found = Bundle.parse(placing.bundle_of(name)).range
    number = zlib.crc32(name.encode())
    assert found.contains(number)
    assert found.lower <= number <= found.upper
    assert {found.lower, found.upper} <= set(cuts)


rates = st.lists(st.floats(0, 1e9), min_size=3, max_size=3)


@settings(max_examples=40)
@given(edges, st.dictionaries(topics, rates, max_size=8))
def test_the_rates_of_bundles_are_the_sums_of_their_topics(cuts: tuple[int, ...], told: dict[str, list[float]]) -> None:
    bundles = NamespaceBundles(NAME, cuts)
    placing = TopicPlacing({"t/n": bundles})
    sums = WindowSums(Window(0, 1_000, 3), placing)
    series = [
        Series({"topic": topic, "instance": "a:1"}, [(float(row), repr(rate)) for row, rate in enumerate(values)])
        for topic, values in told.items()
    ]
    sums.add("rate_in", series)
    for row in range(3):
        whole = sum(figures.values["rate_in"][row] for figures in sums.bundles.values())
        assert whole == pytest.approx(sum(values[row] for values in told.values()))
        assert sum(sums.topics(key, row) for key in sums.bundles) == len(told)
    for (_, bundle), figures in sums.bundles.items():
        mine = [values for topic, values in told.items() if placing.bundle_of(topic) == bundle]
        assert figures.values["rate_in"] == pytest.approx([sum(row) for row in zip(*mine, strict=True)])


def test_what_has_no_bundle_is_counted_by_its_reason() -> None:
    placing = TopicPlacing({"t/n": NamespaceBundles.full(NAME)})
    names = ("", "orders", "persistent://a/b/c", "persistent://pulsar/c1/broker-1:8080/heartbeat", "topic://t/n/x")
    assert [placing.bundle_of(name) for name in names] == [""] * 5
    assert sum(placing.left_out.values()) == 5
    assert placing.left_out["belong to one broker"] == 1
    by_label = BundlePlacing()
    assert by_label.bundle_of("t/n/0x00000000_0xffffffff") == "t/n/0x00000000_0xffffffff"
    assert [by_label.bundle_of(name) for name in ("", "x")] == ["", ""]


@pytest.mark.parametrize(
    ("holders", "before", "owner"),
    [
        (["a"], [], "a"),
        (["a", "b"], ["a"], "b"),  # it moves to b
        (["a", "b"], ["b", "a"], "b"),  # and stays there while a still has its metrics
        (["a"], ["b", "a"], "a"),
        (["b"], ["a"], "b"),
    ],
)
def test_a_bundle_that_moves_belongs_to_the_newcomer(holders: list[str], before: list[str], owner: str) -> None:
    assert owner_of(holders, before) == owner


@pytest.mark.parametrize(
    ("instance", "label", "broker"),
    [
        ("10.1.2.3:8080", "pulsar-0.pulsar", "pulsar-0.pulsar:8080"),
        ("10.1.2.3:8080", "pulsar-0:8443", "pulsar-0:8443"),
        ("10.1.2.3:8080", "", "10.1.2.3:8080"),
        ("pulsar-0", "pulsar-0.pulsar", "pulsar-0.pulsar"),
    ],
)
def test_the_id_of_a_broker(instance: str, label: str, broker: str) -> None:
    assert broker_id(instance, label) == broker


@pytest.mark.parametrize("text", ["[]", "{", '{"t/n": ["0x0"]}', '{"t/n": {}}', '{"t": ["0x00000000", "0xffffffff"]}'])
def test_boundaries_of_another_form_are_refused(text: str) -> None:
    with pytest.raises(ImportRefusedError, match=r"b\.json does not have the boundaries"):
        boundaries_of(text.encode(), "b.json")
