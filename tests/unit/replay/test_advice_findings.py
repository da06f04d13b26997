"""What no balancing can fix: topics, namespaces and brokers, computed by hand."""

import numpy as np
import pytest

from pulsar_barycenter.load.snapshot.load_snapshot import Floats
from pulsar_barycenter.naming.bundle import Bundle
from pulsar_barycenter.replay.advice.brokers import of_other_size, of_other_strength, told_too_little, too_little
from pulsar_barycenter.replay.advice.finding import AdviceFinding, Kind
from pulsar_barycenter.replay.advice.topics_and_bundles import loads_of, namespaces_too_coarse, topics_too_large
from pulsar_barycenter.replay.capacity import Capacity, CapacityModel
from pulsar_barycenter.replay.demand import SPREAD, Demand
from pulsar_barycenter.replay.inputs.recorded import Usages
from pulsar_barycenter.replay.synthetic.demand import START_MS, broker_names, bundle_names

MODEL = CapacityModel(idle_cpu=5.0, cpu_per_message=0.002)
FULL = 800 / 0.002
"""msg/s in + out that take all CPU of a broker of 8 cores, but for what it takes when idle."""
MINUTE_MS = 60_000


def demand_of(load: Floats, bundles: int, of: list[int], hashes: list[int], topics: list[int]) -> Demand:
    """Return sources of these loads (parts of a broker of 8 cores) at each of 10 steps."""
    rate = np.tile(load * FULL / 2, (10, 1))
    return Demand(
        START_MS,
        MINUTE_MS,
        bundle_names(bundles),
        np.array(of),
        np.array(hashes, np.int64),
        rate,
        rate,
        rate,
        rate,
        np.array(topics) * 2,
        np.array(topics),
        ("",) * bundles,
    )


def brokers(count: int, cores: float = 8.0) -> list[Capacity]:
    return [Capacity(cores=cores)] * count


def even(load: float, bundles: int, topics: int = 10) -> Demand:
    """Return like bundles that have this load together."""
    return demand_of(
        np.full(bundles, load / bundles), bundles, list(range(bundles)), [SPREAD] * bundles, [topics] * bundles
    )


def found(demand: Demand, count: int, names: dict[int, str] | None = None) -> list[AdviceFinding]:
    loads = loads_of(demand, MODEL, brokers(count))
    return [*topics_too_large(demand, loads, names), *namespaces_too_coarse(demand, loads)]


def test_an_even_cluster_has_nothing_to_mend() -> None:
    assert found(even(2.0, 64), 4) == []


def test_one_huge_topic_is_to_be_partitioned() -> None:
    # five brokers; 64 bundles have 1.5 together, one topic in the third has 1.0: a fair share is 0.5
    inside = Bundle.parse(bundle_names(64)[2]).range.lower + 7
    of, hashes = [*range(64), 2], [*[SPREAD] * 64, inside]
    demand = demand_of(np.append(np.full(64, 1.5 / 64), 1.0), 64, of, hashes, [*[10] * 64, 1])
    (topic,) = found(demand, 5, {inside: "persistent://public/ns-0000/hot"})
    assert topic.kind is Kind.TOPIC
    assert topic.subject == "persistent://public/ns-0000/hot"
    assert topic.figures["load"] == pytest.approx(1.0)
    assert topic.figures["fairShare"] == pytest.approx(0.5)
    assert topic.figures["partitions"] == 4  # each a quarter of a broker, half a fair share
    assert "needs 100% of a broker's CPU" in topic.sentence
    assert topic.mend == "partition this topic into 4 or more"


def test_a_topic_of_a_recorded_bundle_is_known_by_the_bundle_alone() -> None:
    demand = demand_of(np.array([1.0, 0.5, 0.5]), 3, [0, 1, 2], [SPREAD] * 3, [1, 10, 10])
    topic = next(each for each in found(demand, 4) if each.kind is Kind.TOPIC)
    assert topic.subject == f"the only topic of {bundle_names(3)[0]}"
    assert not [each for each in found(demand, 4) if each.kind is Kind.NAMESPACE and each.figures["largeBundles"] > 2]


def test_four_bundles_on_five_brokers_are_to_be_split_into_twelve() -> None:
    (namespace,) = found(even(2.0, 4), 5)
    # a fair share is 0.4, so a bundle of 0.5 calls for ceil(0.5 / 0.2) = 3 in its place
    assert namespace.kind is Kind.NAMESPACE
    assert namespace.figures["bundles"] == 4
    assert namespace.figures["wantedBundles"] == 12
    assert "has 4 bundles, and 5 brokers" in namespace.sentence
    assert "--bundle 0x00000000_0x40000000 --unload public/ns-0000" in namespace.mend


def test_traffic_that_sits_in_few_of_many_bundles_is_told() -> None:
    load = np.full(64, 0.2 / 62)
    load[[10, 20]] = 0.9
    demand = demand_of(load, 64, list(range(64)), [SPREAD] * 64, [10] * 64)
    (namespace,) = found(demand, 4)
    assert namespace.figures["largeBundles"] == 2
    assert namespace.figures["shareOfLargeBundles"] == pytest.approx(0.9)
    assert namespace.figures["wantedBundles"] == 62 + 2 * 4


def test_a_bundle_that_no_split_makes_smaller_is_not_to_be_split() -> None:
    inside = Bundle.parse(bundle_names(8)[0]).range.lower + 3
    of = [*range(1, 8), 0]
    demand = demand_of(np.append(np.full(7, 0.05), 0.4), 8, of, [*[SPREAD] * 7, inside], [*[10] * 7, 1])
    assert {each.kind for each in found(demand, 2)} == {Kind.TOPIC}


def test_brokers_that_are_as_good_as_idle_have_nothing_to_mend() -> None:
    assert found(even(0.05, 4), 5) == []


def test_brokers_of_another_size_are_told() -> None:
    every = {**dict.fromkeys(broker_names(4), Capacity()), "z:8080": Capacity(cores=16)}
    (strong,) = of_other_size(every)
    assert (strong.subject, strong.figures["cores"], strong.figures["usualCores"]) == ("z:8080", 16, 8)
    assert of_other_size(dict.fromkeys(broker_names(4), Capacity())) == []


# ---- brokers by their reports ----


def usages(strength: dict[str, float], reports: int = 40, every_ms: int = MINUTE_MS) -> Usages:
    """Return the reports of brokers with varying load; one of strength 0.5 takes twice the CPU for it."""
    rng = np.random.default_rng(1)
    names = [name for name in strength for _ in range(reports)]
    at = np.concatenate([np.arange(reports) * every_ms for _ in strength])
    rate = rng.uniform(10_000, 60_000, len(names))
    factor = np.array([1 / strength[name] for name in names])
    size = len(names)
    return Usages(
        names,
        at.astype(np.int64),
        (5 + 0.002 * rate) * factor + rng.normal(0, 0.5, size),
        np.full(size, 800.0),
        np.full(size, 1024.0),
        np.full(size, 1e7),
        rate,
        rate * 1024,
        np.full(size, 7),
    )


def test_a_broker_half_as_strong_is_told_and_no_other() -> None:
    (weak,) = of_other_strength(usages({"a": 1, "b": 1, "c": 0.5, "d": 1, "e": 1}))
    assert weak.subject == "c"
    assert weak.figures["factor"] == pytest.approx(2.0, rel=0.05)
    assert "about 50% as strong" in weak.sentence


def test_who_differs_because_another_bends_the_fit_is_not_told() -> None:
    """Compared with one that takes twice the CPU the other two seem to take less of it than others."""
    every = usages({"a": 1, "b": 1, "c": 1 / 2}, reports=400)
    assert [each.subject for each in of_other_strength(every)] == ["c"]
    two = usages({**dict.fromkeys("abdef", 1.0), "c": 1 / 2, "g": 1 / 3}, reports=100)
    assert [each.subject for each in of_other_strength(two)] == ["g", "c"]


def test_brokers_that_are_alike_are_not_told() -> None:
    assert of_other_strength(usages({"a": 1, "b": 1, "c": 0.9})) == []
    assert of_other_strength(usages({"a": 1})) == []


def test_cpu_that_does_not_follow_traffic_says_nothing_of_strength() -> None:
    told = usages({"a": 1, "b": 0.5})
    told.cpu[:] = np.random.default_rng(3).uniform(0, 700, len(told.cpu))
    assert of_other_strength(told) == []


def test_silence_and_lacking_cpu_are_told() -> None:
    told = usages({"a": 1, "b": 1}, reports=40)
    told.at_ms[20:40] += 30 * MINUTE_MS
    told.cpu[40:60] = -1
    silent, blind = told_too_little(told)
    assert (silent.subject, silent.figures["longestSilenceS"]) == ("a", 31 * 60)
    assert (blind.subject, blind.figures["share"]) == ("b", 0.5)
    assert told_too_little(usages({"a": 1})) == []


# ---- capacity ----


@pytest.mark.parametrize(
    ("load", "count", "needed"),
    [(4.0, 4, 5), (3.39, 4, 5), (3.2, 4, 4), (3.3, 4, 4), (2.0, 4, None), (8.4, 4, 10), (0.5, 1, None)],
)
def test_brokers_to_add_are_those_that_an_even_load_needs(load: float, count: int, needed: int | None) -> None:
    # a broker may use 680 of 800 %, of which 5 are gone when idle: 0.84375 of load
    every = dict(zip(broker_names(count), brokers(count), strict=True))
    told = too_little(even(load, 64), MODEL, every, 0.85)
    assert [each.figures["neededBrokers"] for each in told] == ([] if needed is None else [needed])
    if needed is not None:
        assert told[0].mend.startswith("add a broker" if needed == count else f"add {needed - count} broker")
