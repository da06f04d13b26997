"""The extensible load manager's split check agrees with a slow, obvious version of itself, run after run."""

from collections import Counter
from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from pulsar_barycenter.load.reasons import Code, render
from pulsar_barycenter.load.reports.load_report import NamespaceBundleStats
from pulsar_barycenter.load.splitting.default_split_strategy import DefaultSplitStrategy
from pulsar_barycenter.load.splitting.split_plan import BundleLimits
from pulsar_barycenter.naming.bundle import BundleRange
from support import splitting_oracles as oracle
from support.extensible_choices import ExtensibleCluster
from support.short_forms import examples

PLACES = ("t/a", "t/ab", "u/c")
EDGES = (0, 1, 3, 8, 16, 32, 64)
bundles = st.builds(
    lambda place, at: f"{place}/{BundleRange(EDGES[at], EDGES[at + 1])}", st.sampled_from(PLACES), st.integers(0, 5)
)
figures = st.builds(
    NamespaceBundleStats,
    msg_rate_in=st.sampled_from([0.0, 1.0, 10.0]),
    msg_rate_out=st.sampled_from([0.0, 1.0]),
    msg_throughput_in=st.sampled_from([0.0, 1.0, 10.0]),
    consumer_count=st.sampled_from([0, 0, 9, 10, 11]),
    topics=st.sampled_from([0, 1, 2, 2, 3, 3, 4]),
)
options = st.builds(
    DefaultSplitStrategy,
    limits=st.builds(
        BundleLimits,
        max_topics=st.sampled_from([1, 3]),
        max_sessions=st.sampled_from([-1, 0, 10]),
        max_rate=st.sampled_from([1, 10]),
        max_bandwidth=st.sampled_from([1, 10]),
        max_bundles=st.sampled_from([4, 5, 128]),
    ),
    hits=st.sampled_from([0, 1, 2]),
    most=st.sampled_from([0, 1, 2, 10]),
)


@dataclass
class Minute:
    """The input of one broker in one run. `cuts` is the number of boundaries that the algorithm names for each
    bundle, otherwise one."""

    stats: dict[str, NamespaceBundleStats]
    unowned: set[str]
    splitting: set[str]
    cuts: dict[str, int]

    def boundaries(self, bundle: str) -> tuple[int, ...]:
        found = BundleRange.parse(bundle.rpartition("/")[2])
        return tuple(found.lower + 1 + at for at in range(self.cuts.get(bundle, 1)))


minutes = st.builds(
    Minute,
    st.dictionaries(bundles, figures, max_size=8),
    st.sets(bundles, max_size=2),
    st.sets(bundles, max_size=2),
    st.dictionaries(bundles, st.sampled_from([0, 2]), max_size=3),
)
steady = st.builds(lambda minute, count: [minute] * count, minutes, st.integers(1, 4))


@settings(max_examples=examples(200))
@given(
    options,
    st.lists(minutes | steady.map(lambda same: same[0]), max_size=5) | steady,
    st.dictionaries(bundles.filter(lambda name: not name.endswith("_0x00000001")), st.integers(1, 3), max_size=4),
    st.fixed_dictionaries({place: st.integers(1, 5) for place in PLACES}),
)
def test_it_splits_what_its_oracle_splits_and_remembers_the_same(
    settings: DefaultSplitStrategy, runs: list[Minute], hits: dict[str, int], counts: dict[str, int]
) -> None:
    """Every bundle that is too large is split or has a reason, once. A bundle that cannot be split never has a
    count."""
    memory: dict[str, int] = dict(hits)
    for minute in runs:
        case = ExtensibleCluster(unowned=minute.unowned)
        case.cluster.add("b1:8080", bundles=minute.stats)
        before = dict(memory)
        plan, after = settings.decide(case.snapshot(), counts, minute.boundaries, before, minute.splitting)
        assert before == memory
        expected = oracle.check(
            minute.stats, minute.unowned, settings, memory, counts, minute.boundaries, minute.splitting
        )
        assert [(split.bundle, split.boundary) for split in plan] == [(name, cut) for name, _, cut in expected.splits]
        assert after == memory
        named = {
            "loadBalancerNamespaceBundleMaxTopics": "Topics",
            "loadBalancerNamespaceBundleMaxSessions": "Sessions",
            "loadBalancerNamespaceBundleMaxMsgRate": "MsgRate",
            "loadBalancerNamespaceBundleMaxBandwidthMbytes": "Bandwidth",
        }
        assert [named[split.reason.settings[0]] for split in plan] == [reason for _, reason, _ in expected.splits]
        told = [split.bundle for split in plan] + [refusal.subject for refusal in plan.refusals()]
        assert sorted(told) == sorted(name for name, each in minute.stats.items() if oracle.exceeds(each, settings))
        assert all(render(each.reason) for each in (*plan, *plan.refusals()))
        memory = dict(after)


@given(options, minutes, minutes, st.integers(0, 3))
def test_brokers_that_decide_at_once_decide_as_each_alone(
    settings: DefaultSplitStrategy, one: Minute, other: Minute, hits: int
) -> None:
    """Each broker has its own maximum; namespaces are far from full, and no bundle is on both."""
    counts = dict.fromkeys(PLACES, -100)
    first, second = one.stats, {name: each for name, each in other.stats.items() if name not in one.stats}
    memory = dict.fromkeys((*first, *second), hits)

    def check(*brokers: dict[str, NamespaceBundleStats]) -> tuple[list[str], dict[str, int], Counter[Code]]:
        case = ExtensibleCluster(unowned=one.unowned)
        for number, stats in enumerate(brokers):
            case.cluster.add(f"b{number}:8080", bundles=stats)
        plan, after = settings.decide(case.snapshot(), counts, one.boundaries, memory, one.splitting)
        codes = Counter(refusal.reason.code for refusal in plan.refusals())
        return [split.bundle for split in plan], dict(after), codes

    both, alone = check(first, second), [check(first), check(second)]
    assert both[0] == sorted(alone[0][0] + alone[1][0])
    assert both[1] == alone[0][1] | alone[1][1]
    assert both[2] == alone[0][2] + alone[1][2]
