"""The TransferShedder agrees with a slow, obvious version of itself, and keeps its guarantees."""

import random
import zlib
from collections import Counter
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from pulsar_barycenter.load.reasons import render
from pulsar_barycenter.load.shedding.transfer_plan import UNLOAD_REASONS, TransferPlan, TransferShedderSettings
from pulsar_barycenter.load.shedding.transfer_shedder import TransferMemory, TransferShedder
from pulsar_barycenter.load.snapshot.load_snapshot import Integers
from support.short_forms import examples
from support.transfer_cases import TransferRound, draw_case, our_configuration, unload_reason
from support.transfer_oracle import Decision, transfer_shedding

seeds = st.integers(0, 2**62)


def decided(plan: TransferPlan) -> list[Decision]:
    found = []
    for unload in plan:
        assert unload.reason.cause is not None
        found.append((unload.source, unload.bundle, unload.destination, UNLOAD_REASONS[unload.reason.cause.code]))
    return found


def is_allowed(salt: int, bundle: str, source: str, destination: str) -> bool:
    """Forbid one transfer in four, selected by `salt`."""
    return salt == 0 or zlib.crc32(f"{salt} {bundle} {source} {destination}".encode()) % 4 > 0


def drawn(seed: int) -> tuple[TransferShedderSettings, list[TransferRound], int]:
    rng = random.Random(seed)
    case = draw_case(rng)
    options = TransferShedderSettings.of(our_configuration(case.overrides))
    return replace(options, count_exchanged=rng.random() < 0.3), case.rounds, rng.choice((0, 0, 1, 2, 3))


@settings(max_examples=examples(1_000), deadline=None)
@given(seeds)
def test_the_transfer_shedder_agrees_with_its_oracle(seed: int) -> None:
    """The same bundles in the same order, the same memory and the same label, round after round."""
    options, rounds, salt = drawn(seed)

    def may_transfer(rows: Integers, source: int, destination: int) -> list[bool]:
        brokers, bundles = snapshot.brokers.names, snapshot.bundles.names
        return [is_allowed(salt, bundles[row], brokers[source], brokers[destination]) for row in rows]

    memory, hits, unloaded = TransferMemory(), 0, dict[str, int]()
    for seen in rounds:
        for broker, at_ms in seen.unloaded_at_ms.items():
            memory = memory.after_unload(broker, at_ms)
        unloaded |= seen.unloaded_at_ms
        snapshot = seen.snapshot()
        plan, memory = TransferShedder(options, lambda _snapshot: may_transfer).decide(snapshot, memory)
        expected = transfer_shedding(
            seen, options, hits, unloaded, lambda bundle, source, to: is_allowed(salt, bundle, source, to)
        )
        hits, unloaded = expected.hits, expected.unloaded_at_ms
        assert decided(plan) == expected.decisions
        assert (memory.hits, dict(memory.unloaded_at_ms)) == (hits, unloaded)
        assert expected.decisions or unload_reason(plan) == expected.label
        assert plan.verdicts.statistics.mean == expected.mean
        assert plan.verdicts.statistics.deviation == expected.deviation


@settings(max_examples=examples(400), deadline=None)
@given(seeds)
def test_no_bundle_moves_without_need_or_to_where_it_is(seed: int) -> None:
    """A bundle moves once, leaves the broker that lists it, goes to another broker, and its first broker keeps at
    least one."""
    options, rounds, _ = drawn(seed)
    seen = rounds[0]
    plan, _ = TransferShedder(replace(options, hit_threshold=0)).decide(seen.snapshot(), TransferMemory())
    unloads = list(plan)
    assert len({(unload.source, unload.bundle) for unload in unloads}) == len(unloads)
    assert plan.destinations() == {one.bundle: one.destination for one in unloads if one.destination is not None}
    for unload in unloads:
        listed = {bundle.bundle_name for bundle in seen.tops[unload.source].top_bundles_load_data}
        leaving = {one.bundle for one in unloads if one.source == unload.source and one.destination != unload.source}
        assert unload.bundle in listed
        assert unload.destination != unload.source
        assert (unload.destination is None) is not options.transfer
        exchanged = unload.reason.code == "given_in_exchange"
        assert exchanged or listed - leaving


@settings(max_examples=examples(400), deadline=None)
@given(seeds)
def test_everything_has_a_reason_in_words(seed: int) -> None:
    """Every broker either gives bundles or has a reason, every bundle with a reason stays, and all reasons render."""
    options, rounds, salt = drawn(seed)
    seen = rounds[0]
    snapshot = seen.snapshot()
    plan, _ = TransferShedder(
        replace(options, hit_threshold=min(options.hit_threshold, 1)),
        lambda _snapshot: lambda rows, source, to: [salt == 0 or (int(row) + source + to) % 3 > 0 for row in rows],
    ).decide(snapshot, TransferMemory(hits=1))
    assert render(plan.reason)
    assert unload_reason(plan)
    unloads, refusals = list(plan), list(plan.refusals())
    assert all(render(unload.reason) for unload in unloads)
    assert all(render(refusal.reason).startswith(refusal.subject) for refusal in refusals)
    told = {refusal.subject for refusal in refusals}
    givers = {unload.source for unload in unloads}
    assert set(snapshot.brokers.names) == givers | (told & set(snapshot.brokers.names))
    assert not givers & told
    listed = Counter(bundle.bundle_name for top in seen.tops.values() for bundle in top.top_bundles_load_data)
    assert not {unload.bundle for unload in unloads if listed[unload.bundle] == 1} & told
    assert all(render(plan.broker_reason(row)) for row in range(len(snapshot.brokers)))


@settings(max_examples=examples(200))
@given(seeds)
def test_the_order_of_the_input_does_not_matter(seed: int) -> None:
    options, rounds, _ = drawn(seed)
    seen = rounds[0]
    options = replace(options, hit_threshold=0)
    plan, memory = TransferShedder(options).decide(seen.snapshot(), TransferMemory())
    again, other_memory = TransferShedder(options).decide(seen.turned().snapshot(), TransferMemory())
    assert (decided(plan), memory) == (decided(again), other_memory)


@settings(max_examples=examples(200))
@given(seeds, st.integers(1, 8), st.floats(0.01, 1.5))
def test_brokers_alike_give_nothing(seed: int, brokers: int, usage: float) -> None:
    options, _, _ = drawn(seed)
    seen = TransferRound()
    for number in range(brokers):
        seen.add(f"b{number}", usage, 10.0, 20.0, 30.0)
    plan, memory = TransferShedder(replace(options, hit_threshold=0, target_deviation=0.25)).decide(
        seen.snapshot(), TransferMemory()
    )
    assert (len(plan), memory.hits, unload_reason(plan)) == (0, 0, "HitCount")
