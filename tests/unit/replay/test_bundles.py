"""The traffic of a bundle after a split: topics stay whole, evenly spread traffic is divided like the range."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.replay.bundles import Bundles
from pulsar_barycenter.replay.demand import SPREAD, Demand, check
from pulsar_barycenter.replay.errors import ReplayInputError

WHOLE = "t/ns/0x00000000_0x00000100"


def of_one_bundle(rates: list[float], hashes: list[int], spans: list[tuple[int, int]] | None = None) -> Demand:
    row, count = np.array([rates]), len(rates)
    demand = Demand(
        0,
        60_000,
        (WHOLE,),
        np.zeros(count, np.int64),
        np.array(hashes, np.int64),
        *(row for _ in range(4)),
        np.full(count, 2),
        np.full(count, 4),
        ("",),
        None if spans is None else np.array(spans, np.int64).T,
    )
    check(demand)
    return demand


def after(demand: Demand, *cuts: int) -> list[float]:
    """Return msg/s in of the parts of the bundle, cut there one cut after the other."""
    bundles = Bundles(demand)
    bundles.advance(0)
    for cut in cuts:
        name = next(name for name in bundles.names if int(name[-21:-11], 16) < cut < int(name[-10:], 16))
        bundles.split(name, [cut])
    return bundles.figures[0].tolist()


def test_a_topic_goes_whole_and_the_rest_by_width() -> None:
    assert after(of_one_bundle([10.0, 8.0], [0x20, SPREAD]), 0x40) == pytest.approx([10 + 2, 6])


def test_what_is_spread_over_a_span_is_divided_where_the_span_is() -> None:
    spans = [(0x00, 0x40), (0x40, 0x100)]
    assert after(of_one_bundle([10.0, 6.0], [SPREAD] * 2, spans), 0x40) == pytest.approx([10, 6])
    assert after(of_one_bundle([10.0, 6.0], [SPREAD] * 2, spans), 0x20) == pytest.approx([5, 11])
    assert after(of_one_bundle([10.0, 6.0], [SPREAD] * 2, spans), 0x80, 0x20) == pytest.approx([5, 7, 4])


@given(
    edges=st.lists(st.integers(1, 0xFF), unique=True, min_size=1, max_size=6).map(sorted),
    cuts=st.lists(st.integers(1, 0xFF), unique=True, max_size=6),
    data=st.data(),
)
def test_a_bundle_cut_at_the_edges_of_its_spans_has_their_traffic_in_its_parts(
    edges: list[int], cuts: list[int], data: st.DataObject
) -> None:
    """However often it was cut before: what the parts between two edges carry together is what that span carries."""
    spans = list(zip([0, *edges], [*edges, 0x100], strict=True))
    rates = data.draw(st.lists(st.floats(0.1, 100), min_size=len(spans), max_size=len(spans)))
    every = [*cuts, *(edge for edge in edges if edge not in cuts)]
    found = after(of_one_bundle(rates, [SPREAD] * len(spans), spans), *every)
    parts = sorted({0, *every})
    carried = [sum(rate for at, rate in zip(parts, found, strict=True) if low <= at < high) for low, high in spans]
    assert carried == pytest.approx(rates)


def test_where_a_split_would_cut_goes_by_where_the_topics_are() -> None:
    """Sixteen topics in the first eighth of the range: half of them are below its sixteenth."""
    demand = replace(of_one_bundle([16.0], [SPREAD], [(0x00, 0x20)]), topics=np.array([16]))
    bundles = Bundles(demand)
    bundles.advance(0)
    config = BrokerConfig(default_namespace_bundle_split_algorithm="topic_count_equally_divide")
    (cut,) = bundles.cuts(WHOLE, config)
    assert 0x0E <= cut <= 0x12


def test_a_span_over_nothing_is_refused() -> None:
    with pytest.raises(ReplayInputError, match="the hash range of a load source is empty"):
        of_one_bundle([1.0], [SPREAD], [(8, 8)])
