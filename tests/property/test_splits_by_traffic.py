"""flow_or_qps_equally_divide: the load of its parts, for any hashes of topics."""

import random
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from pulsar_barycenter.load.splitting.flow_or_qps_equally_divide import flow_or_qps_equally_divide
from pulsar_barycenter.load.splitting.request import SplitRequest, TopicLoad, TrafficLimits
from pulsar_barycenter.naming.bundle import MAX_HASH, BundleRange
from pulsar_barycenter.naming.bundles import NamespaceBundles
from pulsar_barycenter.naming.namespace import NamespaceName
from support.short_forms import examples

figures = st.sampled_from([0, 0, 1, 5, 10, 11, 20]) | st.integers(0, 30)
limits = st.builds(
    TrafficLimits,
    max_rate=st.sampled_from([0, 1, 10, 20, 50]),
    max_bandwidth=st.sampled_from([0, 10, 20, 1000]),
    difference=st.sampled_from([0.0, 0.1, 0.5]),
)


@st.composite
def requests(draw: st.DrawFn) -> SplitRequest:
    """Draw neighbouring hashes often, equal ones too, at both ends of the range and of all hashes."""
    lower = draw(st.sampled_from([0, 100, MAX_HASH - 40]))
    found = BundleRange(lower, draw(st.sampled_from([lower + 2, lower + 40])))
    last = found.upper if found.upper == MAX_HASH else found.upper - 1
    loads = draw(st.lists(st.builds(TopicLoad, st.integers(lower, last), figures, figures), max_size=12))
    return SplitRequest(found, loads=tuple(loads), limits=draw(limits))


def parts(request: SplitRequest, cuts: tuple[int, ...]) -> list[list[TopicLoad]]:
    """Return the topics with load in each part, by hash."""
    edges = [request.range.lower, *cuts, MAX_HASH + 1]
    active = sorted((load for load in request.loads if load.rate or load.throughput), key=lambda load: load.hash)
    return [[load for load in active if low <= load.hash < high] for low, high in pairwise(edges)]


def fits(part: list[TopicLoad], limits: TrafficLimits) -> bool:
    return (
        sum(load.rate for load in part) <= limits.max_rate
        and sum(load.throughput for load in part) <= limits.max_bandwidth
    )


@settings(max_examples=examples(400))
@given(requests(), st.randoms())
def test_parts_are_as_long_as_fit_and_the_rest_cannot_be_parted(request: SplitRequest, shuffler: random.Random) -> None:
    cuts = flow_or_qps_equally_divide(request)
    (whole,) = parts(request, ())
    least = 1 + request.limits.difference
    enough = (
        sum(load.rate for load in whole) >= request.limits.max_rate * least
        or sum(load.throughput for load in whole) >= request.limits.max_bandwidth * least
    )
    if len({load.hash for load in whole}) < 2 or not enough:
        assert cuts == ()
        return
    divided = parts(request, cuts)
    for part, following in pairwise(divided):
        assert part
        assert following
        first = [load for load in following if load.hash == following[0].hash]
        assert not fits([*part, *first], request.limits), "the part might have been longer"
    at_the_end = MAX_HASH if request.range.upper == MAX_HASH else None
    for part in divided:
        hashes = {load.hash for load in part}
        assert len(hashes) == 1 or fits(part, request.limits) or at_the_end in hashes
    shuffled = list(request.loads)
    shuffler.shuffle(shuffled)
    assert flow_or_qps_equally_divide(SplitRequest(request.range, (), (), tuple(shuffled), request.limits)) == cuts


@given(requests())
def test_the_cuts_make_bundles(request: SplitRequest) -> None:
    """They rise strictly inside the range, so that a namespace accepts them."""
    cuts = flow_or_qps_equally_divide(request)
    if not cuts:
        return
    edges = sorted({0, request.range.lower, request.range.upper, MAX_HASH})
    before = NamespaceBundles(NamespaceName.parse("t/ns"), tuple(edges))
    _, children = before.split(before.validate(request.range), cuts)
    assert [child.range.lower for child in children[1:]] == list(cuts)
