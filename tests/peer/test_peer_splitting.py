"""The split check and the split algorithms beside Pulsar's, and the hashes and bundles that they rest on."""

import random
from collections import Counter
from dataclasses import dataclass
from typing import Any

import pytest

from pulsar_barycenter.load.splitting.algorithms import ALGORITHMS, split_algorithm
from pulsar_barycenter.load.splitting.bundle_splitter import BundleSplitterTask
from pulsar_barycenter.load.splitting.flow_or_qps_equally_divide import NAME as TRAFFIC
from pulsar_barycenter.load.splitting.request import MEBIBYTE, SplitRefusedError, SplitRequest, TopicLoad, TrafficLimits
from pulsar_barycenter.load.splitting.specified_positions_divide import FORCE_NAME
from pulsar_barycenter.load.splitting.split_plan import BundleLimits
from pulsar_barycenter.load.splitting.splitter import no_boundaries
from pulsar_barycenter.naming.bundle import MAX_HASH, BundleRange
from pulsar_barycenter.naming.bundles import NamespaceBundles
from pulsar_barycenter.naming.namespace import NamespaceName
from pulsar_barycenter.naming.topic import TopicName
from support.load_cases import Cluster
from support.peer_cases import cluster, configuration, drawn, load_document, pick
from support.pulsar_peer import PulsarPeer

pytestmark = [pytest.mark.peer, pytest.mark.xdist_group("peer"), pytest.mark.timeout(3600)]

NO_LIMIT = 2**31 - 1


def namespace_of(bundle: str) -> str:
    return bundle.rpartition("/")[0]


@dataclass
class Check:
    load: Cluster
    overrides: dict[str, Any]
    counts: dict[str, int]

    def ours(self) -> dict[str, str]:
        settings = BundleLimits.of(configuration(self.overrides))
        return {
            one.bundle: one.broker
            for one in BundleSplitterTask(settings).decide(self.load.snapshot(), self.counts, no_boundaries, None)[0]
        }

    def document(self, *, limited: bool) -> dict[str, Any]:
        wide = {} if limited else {"loadBalancerNamespaceMaximumBundles": NO_LIMIT}
        return {
            "configuration": self.overrides | wide,
            "load": load_document(self.load),
            "bundleCounts": self.counts,
        }


def draw_check(rng: random.Random) -> Check:
    load = cluster(rng, shared_bundles=False)
    reported = Counter(namespace_of(bundle) for one in load.reports.values() for bundle in one.last_stats)
    overrides = {
        "loadBalancerNamespaceBundleMaxTopics": rng.choice((2, 999, 1000)),
        "loadBalancerNamespaceBundleMaxSessions": rng.choice((-1, 0, 500, 1000, 1000)),
        "loadBalancerNamespaceBundleMaxMsgRate": rng.choice((100, 30_000, 30_000, 45_000)),
        "loadBalancerNamespaceBundleMaxBandwidthMbytes": rng.choice((1, 10, 20, 100, 100)),
        "loadBalancerNamespaceMaximumBundles": rng.choice((4, 16, 128, 128)),
    }
    return Check(load, overrides, {name: count + rng.choice((0, 0, 3)) for name, count in reported.items()})


def test_the_split_check_chooses_what_pulsars_chooses(peer: PulsarPeer, cases: int, seed: int) -> None:
    """Where a namespace fills up Pulsar serves its bundles in map order: as many of the too large ones, whichever."""

    def ask(*, limited: bool) -> Any:
        checks = drawn(random.Random(f"split check {seed}"), cases, draw_check)
        return peer.ask("Splitting", "check", checks, lambda case: case[1].document(limited=limited))

    large = [answer for _, answer in ask(limited=False)]
    fired = filled = 0
    for ((number, case), answer), too_large in zip(ask(limited=True), large, strict=True):
        ours = case.ours()
        assert ours.items() <= too_large.items(), number
        assert Counter(map(namespace_of, ours)) == Counter(map(namespace_of, answer)), number
        if len(answer) == len(too_large):
            assert ours == answer, number
        fired += bool(answer)
        filled += len(answer) < len(too_large)
    print(f"{cases} cases, {fired} that split, {filled} with a full namespace")
    assert fired > cases // 10
    assert filled > cases // 50


@dataclass
class Cut:
    algorithm: str
    range: BundleRange
    topics: list[str]
    positions: list[int]

    def ours(self) -> list[int] | str:
        hashes = tuple(TopicName.parse(topic).hash32 for topic in self.topics)
        try:
            return list(split_algorithm(self.algorithm)(SplitRequest(self.range, hashes, tuple(self.positions))))
        except SplitRefusedError:
            return "refused"

    def document(self) -> dict[str, Any]:
        return {
            "namespace": "t/ns",
            "lower": self.range.lower,
            "upper": self.range.upper,
            "algorithm": self.algorithm,
            "forced": self.algorithm == FORCE_NAME,
            "topics": self.topics,
            "positions": self.positions,
        }


def topic_name(rng: random.Random) -> str:
    local = "x" + "".join(rng.choices("abcABC019-_.%= ü漢", k=rng.randint(1, 12)))
    domain = rng.choice(("persistent", "persistent", "non-persistent"))
    partition = f"-partition-{rng.randint(0, 99)}" if rng.random() < 0.3 else ""
    return f"{domain}://t/ns/{local}{partition}"


def draw_cut(rng: random.Random, algorithm: str) -> Cut:
    count = rng.choice((1, 2, 4, 7, 16, 64))
    found = NamespaceBundles.equal(NamespaceName.parse("t/ns"), count).bundles[rng.randrange(count)].range
    if rng.random() < 0.2:
        lower = rng.randint(0, MAX_HASH - 2)
        found = BundleRange(lower, min(MAX_HASH, lower + rng.choice((1, 2, 3, 1000))))
    topics = [topic_name(rng) for _ in range(rng.choice((0, 1, 2, 3, rng.randint(0, 40))))]
    near = (found.lower, found.upper, found.lower + 1, max(found.lower, found.upper - 1), rng.randint(0, MAX_HASH))
    positions = [rng.choice((*near, rng.randint(found.lower, found.upper))) for _ in range(rng.randint(0, 5))]
    return Cut(algorithm, found, topics, positions)


@pytest.mark.parametrize("algorithm", sorted(set(ALGORITHMS) - {TRAFFIC}))
def test_split_algorithms_cut_where_pulsars_cut(peer: PulsarPeer, cases: int, seed: int, algorithm: str) -> None:
    """The boundaries are the same, but that ours name none twice, and both refuse the same."""
    questions = drawn(random.Random(f"{algorithm} {seed}"), cases, lambda rng: draw_cut(rng, algorithm))
    cut = 0
    for (number, case), answer in peer.ask("Splitting", "boundaries", questions, lambda case: case[1].document()):
        ours = case.ours()
        assert ours == (answer if answer == "refused" else sorted(set(answer))), number
        cut += ours not in ([], "refused")
    assert cut > cases // 10


@dataclass
class TrafficCut:
    range: BundleRange
    topics: dict[str, dict[str, float] | None]
    overrides: dict[str, Any]

    def ours(self) -> list[int]:
        loads = tuple(
            TopicLoad(
                TopicName.parse(topic).hash32,
                figures["msgRateIn"] + figures["msgRateOut"],
                figures["msgThroughputIn"] + figures["msgThroughputOut"],
            )
            for topic, figures in self.topics.items()
            if figures is not None
        )
        limits = TrafficLimits.of(configuration(self.overrides))
        request = SplitRequest(self.range, tuple(load.hash for load in loads), loads=loads, limits=limits)
        return list(split_algorithm(TRAFFIC)(request))

    def document(self) -> dict[str, Any]:
        return {
            "namespace": "t/ns",
            "lower": self.range.lower,
            "upper": self.range.upper,
            "algorithm": TRAFFIC,
            "forced": False,
            "topics": list(self.topics),
            "stats": {topic: figures for topic, figures in self.topics.items() if figures is not None},
            "configuration": self.overrides,
        }


def draw_traffic_cut(rng: random.Random) -> TrafficCut:
    """Draw as many topics as there are positions for them; few carry nothing or have no statistics."""
    count = rng.choice((1, 2, 4, 16))
    found = NamespaceBundles.equal(NamespaceName.parse("t/ns"), count).bundles[rng.randrange(count)].range
    wanted = rng.choice((0, 1, 2, 3, rng.randint(0, 40)))
    scale = rng.choice((0.0, 0.1, 1.0, 1.0))
    topics: dict[str, dict[str, float] | None] = {}
    for _ in range(wanted):
        name = topic_name(rng)
        while not found.contains(TopicName.parse(name).hash32):
            name = topic_name(rng)
        topics[name] = {
            "msgRateIn": pick(rng, (0, 0, 1, 5_000, 15_000), 0, 2e4) * scale,
            "msgRateOut": pick(rng, (0, 0, 1, 5_000, 15_000), 0, 2e4) * scale,
            "msgThroughputIn": pick(rng, (0, 0, 1, 10.0 * MEBIBYTE), 0, 5e7) * scale,
            "msgThroughputOut": pick(rng, (0, 0, 1, 10.0 * MEBIBYTE), 0, 5e7) * scale,
        }
        if rng.random() < 0.1:
            topics[name] = None
    overrides = {
        "loadBalancerNamespaceBundleMaxMsgRate": rng.choice((0, 1000, 20_000, 30_000, 30_000)),
        "loadBalancerNamespaceBundleMaxBandwidthMbytes": rng.choice((1, 20, 100, 100)),
        "flowOrQpsDifferenceThresholdPercentage": rng.choice((0, 10, 10, 50)),
    }
    return TrafficCut(found, topics, overrides)


def test_traffic_is_cut_where_pulsar_cuts_it(peer: PulsarPeer, cases: int, seed: int) -> None:
    questions = drawn(random.Random(f"{TRAFFIC} {seed}"), cases, draw_traffic_cut)
    cut = several = 0
    for (number, case), answer in peer.ask("Splitting", "boundaries", questions, lambda case: case[1].document()):
        ours = case.ours()
        assert ours == answer, number
        cut += bool(ours)
        several += len(ours) > 1
    print(f"{cases} cases, {cut} that cut, {several} of them more than once")
    assert cut > cases // 10
    assert several > cases // 10


def draw_bundles(rng: random.Random) -> tuple[NamespaceBundles, list[str]]:
    bundles = NamespaceBundles.equal(NamespaceName.parse("t/ns"), rng.choice((1, 2, 3, 4, 7, 16, 100, 128)))
    for _ in range(rng.randint(0, 3)):
        target = rng.choice(bundles.bundles)
        if target.range.width > 4:
            positions = sorted({rng.randint(target.range.lower + 1, target.range.upper - 1) for _ in range(2)})
            bundles, _ = bundles.split(target, positions)
    return bundles, [topic_name(rng) for _ in range(10)]


def test_topics_fall_in_the_bundles_of_pulsar(complete_peer: PulsarPeer, cases: int, seed: int) -> None:
    """Boundaries give bundles of the same names, topics have the same hash and the same bundle."""
    questions = drawn(random.Random(f"bundles {seed}"), cases, draw_bundles)

    def document(case: tuple[int, tuple[NamespaceBundles, list[str]]]) -> Any:
        bundles, topics = case[1]
        return {"namespace": "t/ns", "boundaries": bundles.boundary_texts(), "topics": topics}

    for (number, (bundles, topics)), answer in complete_peer.ask("Naming", "bundles", questions, document):
        assert [str(bundle) for bundle in bundles.bundles] == answer["bundles"], number
        for text, there in zip(topics, answer["topics"], strict=True):
            topic = TopicName.parse(text)
            assert (topic.hash32, str(bundles.find(topic))) == (there["hash"], there["bundle"]), text
