"""The simple load manager agrees with a slow version of itself, for any cluster."""

import random
from typing import Any

import hypothesis
import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_barycenter.load.filters.outcome import PlacementRequest
from pulsar_barycenter.load.reasons import render
from pulsar_barycenter.load.reports.load_report import LocalBrokerData, encode_without_none
from pulsar_barycenter.load.reports.simple_load_report import (
    LoadReport,
    as_local_broker_data,
    decode_load_report,
    load_report_of,
)
from pulsar_barycenter.load.simple.placement import SimpleMemory, rank, select_broker
from pulsar_barycenter.load.simple.quotas import Quotas, QuotaTable, figures_of, update_quotas
from pulsar_barycenter.load.simple.shedding import SimpleShedder
from pulsar_barycenter.load.simple.simple_settings import SimpleStrategy
from pulsar_barycenter.load.snapshot.builder import build_snapshot
from pulsar_barycenter.load.snapshot.simple_snapshot import build_simple_snapshot
from support import simple_cases, simple_oracles
from support.load_cases import bundle_name

PREALLOCATING = (SimpleStrategy.LEAST_LOADED_SERVER, SimpleStrategy.LEAST_MSG_PER_SECOND)
randoms = st.integers(0, 2**32).map(random.Random)


def learned(quotas: Quotas) -> simple_oracles.Learned:
    table = {name: quotas.of(name) for name in quotas.bundles.names} | dict(quotas.known)
    return simple_oracles.Learned(
        table, quotas.default, quotas.average, quotas.cpu_factor, quotas.memory_factor, quotas.updated_at_ms
    )


@hypothesis.settings(deadline=None)
@given(randoms)
def test_quotas_agree_with_their_oracle_over_several_reports(rng: random.Random) -> None:
    reports = simple_cases.cluster(rng)
    bundles = [name for report in reports.values() for name in report.bundle_stats]
    stored = {name: simple_cases.quota(rng) for name in bundles if rng.random() < 0.5}
    quotas = Quotas(default=simple_cases.quota(rng), average=simple_cases.quota(rng), updated_at_ms=990_000)
    quotas = quotas.learning(stored)
    for _ in range(3):
        expected = simple_oracles.learn(reports, learned(quotas))
        quotas = update_quotas(build_simple_snapshot(reports), quotas)
        assert {name: quotas.of(name) for name in quotas.bundles.names} == expected.quotas
        assert (quotas.average, quotas.updated_at_ms) == (expected.average, expected.at_ms)
        assert (quotas.cpu_factor, quotas.memory_factor) == (expected.cpu, expected.memory)
        reports = simple_cases.later(rng, reports, {}, by_ms=rng.choice((0, 1, 60_000, 1_800_000, 10**9)))


@hypothesis.settings(deadline=None)
@given(randoms)
def test_placements_agree_with_their_oracle_bundle_by_bundle(rng: random.Random) -> None:
    """Several rounds of reports; between them new bundles, and some reported ones, are placed."""
    reports = simple_cases.cluster(rng)
    settings = simple_cases.settings(rng, *PREALLOCATING)
    quotas = Quotas(default=simple_cases.quota(rng), cpu_factor=rng.choice((0.025, 0.015625, 0.1)))
    oracle, memory = simple_oracles.SimpleOracle(learned(quotas), settings), SimpleMemory(cursor=999_998)
    oracle.cursor = memory.cursor
    placed: dict[str, str] = {}
    for number in range(3):
        quotas = update_quotas(build_simple_snapshot(reports), quotas)
        oracle.learned = learned(quotas)
        ranking, memory = rank(build_simple_snapshot(reports), quotas, memory, settings)
        oracle.report(reports)
        assert ranking.rank.tolist() == [oracle.ranked[name].rank for name in sorted(reports)]
        live = {name for name in reports if rng.random() < 0.95}
        allowed = {name for name, report in reports.items() if report.persistent_topics_enabled}
        known = [name for report in reports.values() for name in report.bundle_stats]
        new = [bundle_name(100 + number * 20 + index, rng.choice(simple_cases.NAMESPACES)) for index in range(6)]
        for bundle in rng.sample(new + known, min(8, len(new + known))):
            expected = oracle.place(bundle, allowed, live)
            placement, ranking, memory = select_broker(
                ranking, PlacementRequest(bundle), settings, quotas, live, rng, memory
            )
            assert placement.broker == expected
            assert memory.cursor == oracle.cursor
            assert render(placement.reason)
            assert ranking.load.tolist() == [oracle.ranked[name].load(quotas.cpu_factor) for name in sorted(reports)]
            if expected is not None:
                placed[bundle] = expected
        reports = simple_cases.later(rng, reports, placed, by_ms=60_000)


@hypothesis.settings(deadline=None)
@given(randoms)
def test_the_weighted_draw_is_by_free_room_squared_and_remembers_nothing(rng: random.Random) -> None:
    reports = simple_cases.cluster(rng)
    settings = simple_cases.settings(rng, SimpleStrategy.WEIGHTED_RANDOM_SELECTION)
    quotas = update_quotas(build_simple_snapshot(reports), Quotas())
    oracle = simple_oracles.SimpleOracle(learned(quotas), settings)
    ranking, memory = rank(build_simple_snapshot(reports), quotas, SimpleMemory(), settings)
    oracle.report(reports)
    allowed = {name for name, report in reports.items() if report.persistent_topics_enabled}
    bundle = bundle_name(99, "t/a")
    line = oracle.candidates(bundle, allowed, set(reports))
    weights = [oracle.ranked[name].rank for name in line]

    class ScriptedDraws(random.Random):
        """Draws the given numbers."""

        number = 0

        def randrange(self, start: int, *_: Any, **__: Any) -> int:
            assert start == (sum(weights) or len(line))
            return self.number

    draws = ScriptedDraws()
    for place, name in enumerate(line):
        if sum(weights):
            if not weights[place]:
                continue
            edges = [sum(weights[:place]), sum(weights[: place + 1]) - 1]
        else:
            edges = [place]
        for number in edges:
            draws.number = number
            told = select_broker(ranking, PlacementRequest(bundle), settings, quotas, set(reports), draws, memory)
            assert told[0].broker == name
            assert told[1:] == (ranking, memory)
    if not line:
        told = select_broker(ranking, PlacementRequest(bundle), settings, quotas, set(reports), draws, memory)
        assert told[0].broker is None


@hypothesis.settings(deadline=None)
@given(randoms)
def test_shedding_agrees_with_its_oracle_and_explains_every_broker(rng: random.Random) -> None:
    reports = simple_cases.cluster(rng)
    names = sorted({name for report in reports.values() for name in report.bundle_stats})
    recent = {name for name in names if rng.random() < 0.3}
    settings = simple_cases.settings(rng)
    plan = SimpleShedder(settings).decide(build_simple_snapshot(reports, recently_unloaded=recent), None)[0]
    told = [(unload.source, unload.bundle) for unload in plan]
    assert told == simple_oracles.shed(reports, settings, set(), recent)
    refused = {refusal.subject for refusal in plan.refusals()}
    assert refused == set(reports) - {source for source, _ in told}
    for reason in (plan.reason, *(unload.reason for unload in plan), *(each.reason for each in plan.refusals())):
        assert render(reason)


@hypothesis.settings(deadline=None)
@given(randoms)
def test_no_decision_depends_on_the_order_in_which_brokers_and_bundles_are_told_of(rng: random.Random) -> None:
    reports = simple_cases.cluster(rng)
    settings = simple_cases.settings(rng)
    one, other = build_simple_snapshot(reports), build_simple_snapshot(simple_cases.turned(reports))
    assert list(SimpleShedder(settings).decide(one, None)[0]) == list(SimpleShedder(settings).decide(other, None)[0])
    quotas = update_quotas(one, Quotas())
    assert np.array_equal(quotas.bundles.figures, update_quotas(other, Quotas()).bundles.figures)
    seed = rng.getrandbits(32)
    chosen = [
        select_broker(
            rank(snapshot, quotas, SimpleMemory(), settings)[0],
            PlacementRequest(bundle_name(99, "t/a")),
            settings,
            quotas,
            set(reports),
            random.Random(seed),
            SimpleMemory(),
        )[0]
        for snapshot in (one, other)
    ]
    assert chosen[0] == chosen[1]


@hypothesis.settings(deadline=None)
@given(randoms)
def test_a_report_loses_nothing_on_its_way_through_json(rng: random.Random) -> None:
    for report in simple_cases.cluster(rng).values():
        full = msgspec.structs.replace(
            report,
            allocated_cpu=rng.random(),
            pre_allocated_msg_rate_in=rng.random(),
            bundle_gains=("a", "b"),
            over_loaded=True,
            web_service_url="http://b:8080",
            incarnation="1f",
            sequence=7,
        )
        assert decode_load_report(encode_without_none(full)) == full


@hypothesis.settings(deadline=None)
@given(randoms)
def test_the_snapshot_shows_the_latest_figures_in_every_window(rng: random.Random) -> None:
    reports = simple_cases.cluster(rng)
    snapshot = build_simple_snapshot(reports, taken_at_ms=5)
    bundles, brokers = snapshot.bundles, snapshot.brokers
    assert bundles.short is bundles.long is bundles.latest
    assert brokers.short is brokers.long is brokers.latest
    assert snapshot.taken_at_ms == 5
    plain = build_snapshot({name: as_local_broker_data(each) for name, each in reports.items()}, {}, {})
    assert list(bundles.names) == list(plain.bundles.names)
    for row, name in enumerate(brokers.names):
        mine = reports[name].bundle_stats.values()
        assert brokers.latest.rate_in[row] == pytest.approx(sum(stats.msg_rate_in for stats in mine))
        assert brokers.latest.throughput_in[row] == pytest.approx(sum(stats.msg_throughput_in for stats in mine))


@hypothesis.settings(deadline=None)
@given(randoms)
def test_a_report_of_the_modular_manager_becomes_one_of_the_simple_and_back(rng: random.Random) -> None:
    for report in simple_cases.cluster(rng).values():
        data = as_local_broker_data(report)
        assert load_report_of(data) == report
        assert isinstance(data, LocalBrokerData)
        assert data.num_bundles == len(report.bundle_stats)


@hypothesis.settings(deadline=None)
@given(st.lists(st.sampled_from(["a", "b", "c", "d"]), unique=True).map(sorted), randoms)
def test_quotas_found_in_a_table_are_those_put_in(names: list[str], rng: random.Random) -> None:
    known = {name: simple_cases.quota(rng) for name in names if rng.random() < 0.7}
    stored = {name: simple_cases.quota(rng) for name in names if rng.random() < 0.5}
    quotas = Quotas(bundles=QuotaTable.of(known)).learning(stored)
    table = quotas.table(names)
    for row, name in enumerate(names):
        expected = known.get(name) or stored.get(name) or quotas.default
        assert table.figures[:, row].tolist() == figures_of(expected).tolist()
        assert quotas.of(name) == expected
    assert quotas.unknown(names) == [name for name in names if name not in known and name not in stored]


def test_reports_of_another_load_manager_are_refused() -> None:
    with pytest.raises(msgspec.DecodeError):
        decode_load_report(msgspec.json.encode(LocalBrokerData(broker_id="b:8080")))
    assert decode_load_report(b'{"name":"b:8080","somethingNew":1}') == LoadReport(name="b:8080")
