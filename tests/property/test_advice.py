"""Advice on drawn load and settings: the properties of every advice."""

from statistics import fmean

import msgspec
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsar_barycenter.config.broker_conf import keys, parse_broker_conf
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.replay.advice.changes import commands, fragment
from pulsar_barycenter.replay.advice.document import Advice, AdviceVerdict
from pulsar_barycenter.replay.advice.parts import parts_of
from pulsar_barycenter.replay.advice.topics_and_bundles import loads_of, namespaces_too_coarse, topics_too_large
from pulsar_barycenter.replay.advice.verdict import advice_of
from pulsar_barycenter.replay.advice.weighing import LEAST_GAIN
from pulsar_barycenter.replay.capacity import Capacity, CapacityModel
from pulsar_barycenter.replay.demand import SPREAD, Demand
from pulsar_barycenter.replay.scenario import BENCHED, like_brokers
from pulsar_barycenter.replay.synthetic.demand import START_MS, Shape, bundle_names, generated
from support.advised import question_of, tried

BASES = st.fixed_dictionaries(
    {},
    optional={
        "loadBalancerAvgShedderLowThreshold": st.sampled_from(["1", "7", "15", "100"]),
        "loadBalancerAvgShedderHitCountLowThreshold": st.sampled_from(["1", "3", "8", "40"]),
        "loadBalancerHistoryResourcePercentage": st.sampled_from(["0", "0.33", "1"]),
        "loadBalancerBrokerLoadTargetStd": st.sampled_from(["0", "0.2", "3.5"]),
        "loadBalancerSheddingEnabled": st.sampled_from(["true", "false"]),
    },
)


@settings(max_examples=5, deadline=None)
@given(
    st.integers(0, 2**20),
    BASES,
    st.lists(st.sampled_from(BENCHED), min_size=1, max_size=2, unique=True),
    st.sampled_from(["balance", "both", "calm"]),
)
def test_advice_keeps_its_word(seed: int, base: dict[str, str], strategies: list[str], prefer: str) -> None:
    shape = Shape(brokers=3, bundles=9, steps=60, rate=200_000, noise=0.2, spread=1.0)
    demands = [generated(shape, seed + number) for number in (0, 1)]
    question = question_of(demands[0], base, strategies, prefer=prefer)
    known = tried(question, demands, like_brokers(3))
    told = advice_of(question, known, parts_of(60, 60_000), demands[0])
    # nothing that was run, and so nothing advised, is outside the bounds of its key
    for each in told.configurations:
        for key, text in each.settings.items():
            keys()[key].parse(text)
    _carries_out(told, question.today_config)
    of = {each.title: each.choosing.cost for each in told.configurations}
    best = told.advised or told.today
    assert best.choosing.cost <= of[told.today.title]
    if told.advised is not None:
        assert told.advised.gain.points >= LEAST_GAIN
        assert told.advised.gain_held_out.points >= LEAST_GAIN
        assert told.advised.gain.points > told.advised.gain.noise
        saved = fmean(each.gain for each in told.by_seed)
        assert abs(saved - told.advised.gain_held_out.points) < 1e-6
    again = advice_of(question, dict(reversed(known.items())), parts_of(60, 60_000), demands[0])
    assert msgspec.json.encode(again, order="sorted") == msgspec.json.encode(told, order="sorted")


def _carries_out(told: Advice, today: BrokerConfig) -> None:
    """Check that the lines for broker.conf are a valid broker.conf with the changed keys; all others are unchanged."""
    read = parse_broker_conf(fragment(told), "fragment")
    assert not read.unknown_keys
    changed = {each.key for each in told.changes}
    assert (told.verdict is AdviceVerdict.CHANGE) == bool(changed)
    for name, row in keys().items():
        value = getattr(read.config, row.attribute)
        assert name in changed or value == getattr(BrokerConfig(), row.attribute)
    dynamic = [each for each in told.changes if each.is_dynamic]
    assert commands(told).count("update-dynamic-config --config") == len(dynamic)
    assert all(each.today != each.advised for each in told.changes)


@given(
    st.lists(st.floats(0.0, 3.0), min_size=1, max_size=12),
    st.integers(1, 8),
    st.integers(1, 6),
    st.data(),
)
def test_what_is_found_is_really_too_large_and_nothing_else_is(
    loads: list[float], brokers: int, bundles: int, data: st.DataObject
) -> None:
    count = len(loads)
    of = data.draw(st.lists(st.integers(0, bundles - 1), min_size=count, max_size=count))
    topics = data.draw(st.lists(st.integers(1, 20), min_size=count, max_size=count))
    rate = np.tile(np.array(loads) * 200_000, (3, 1))
    names = bundle_names(bundles)
    demand = Demand(
        START_MS,
        60_000,
        names,
        np.array(of),
        np.full(count, SPREAD, np.int64),
        *([rate] * 4),
        np.array(topics),
        np.array(topics),
        ("",) * bundles,
    )
    found = loads_of(demand, CapacityModel(), [Capacity()] * brokers)
    fair = sum(loads) / brokers
    assert abs(found.fair - fair) <= 1e-9 * max(1, fair)
    topical = topics_too_large(demand, found)
    each = [load / number for load, number in zip(loads, topics, strict=True)]
    # a slow obvious version: counted by hand, of ten at most
    wanted = sum(load > fair * (1 + 1e-6) for load in each) if fair >= 0.03 + 1e-9 else 0
    if fair >= 0.03 + 1e-9 or fair < 0.03 - 1e-9:
        assert min(wanted, 10) <= len(topical) <= min(10, sum(load > fair * (1 - 1e-6) for load in each))
    for finding in topical:
        figures = finding.figures
        assert figures["load"] / figures["partitions"] <= figures["fairShare"] / 2 * (1 + 1e-6)
    for finding in namespaces_too_coarse(demand, found):
        assert finding.figures["wantedBundles"] > finding.figures["bundles"] == bundles
        assert finding.figures["largestBundle"] > finding.figures["fairShare"] / 2
