"""Loads that are old or invalid, and why load may never move."""

import math
from dataclasses import replace
from datetime import UTC, datetime

import msgspec
import pytest

from pulsar_barycenter.doctor.checks.balance import (
    absurd_reports,
    cool_down,
    idle_shedder,
    late_pipeline,
    longest_silence_ms,
    old_reports,
    preallocations,
    silent_pipeline,
    without_numpy,
)
from pulsar_barycenter.doctor.finding import Severity
from pulsar_barycenter.doctor.picture import Picture
from pulsar_barycenter.load.managers import ManagerKind
from pulsar_barycenter.load.reports.extensible_reports import BrokerLoadData, BrokerLookupData
from pulsar_barycenter.load.reports.load_report import UNKNOWN_USAGE, ResourceUsage
from pulsar_barycenter.load.snapshot.extensible_document import ExtensibleDocument
from support.doctor_pictures import (
    BROKERS,
    BUNDLES,
    NOW_MS,
    SETTINGS,
    healthy,
    only,
    report,
    snapshot,
    store,
    subjects,
    view,
)

MINUTE_MS = 60_000


def reported(**changed: object) -> Picture:
    """A cluster whose second broker reports something else."""
    reports = {**snapshot().brokers, "b2:8080": report("b2:8080", **changed)}
    return replace(healthy(), snapshot=snapshot(brokers=reports))


def test_bundles_on_their_way_to_a_broker_that_is_gone_are_told() -> None:
    on_their_way = {BUNDLES[0]: msgspec.convert({"shortTermData": {}, "longTermData": {}}, dict)}
    picture = replace(healthy(), snapshot=snapshot(preallocated={"gone:8080": on_their_way, "b1:8080": on_their_way}))
    assert subjects(preallocations, picture) == ["gone:8080"]


@pytest.mark.parametrize(("age_ms", "is_old"), [(29 * MINUTE_MS, False), (31 * MINUTE_MS, True), (-30_000, False)])
def test_a_report_is_old_after_twice_the_longest_pause(age_ms: int, is_old: bool) -> None:
    assert subjects(old_reports, reported(last_update=NOW_MS - age_ms)) == (["b2:8080"] if is_old else [])


def test_the_pause_is_the_longest_that_a_broker_is_set_to() -> None:
    key = "loadBalancerReportUpdateMaxIntervalMinutes"
    views = [view(each, settings={**SETTINGS, key: text}) for each, text in zip(BROKERS, ("1", "60", "x"), strict=True)]
    assert longest_silence_ms(replace(healthy(), brokers=tuple(views))) == 120 * MINUTE_MS
    assert longest_silence_ms(Picture(0)) == 30 * MINUTE_MS


def test_a_report_from_the_future_is_told() -> None:
    assert "s in the future" in only(old_reports, reported(last_update=NOW_MS + 2 * MINUTE_MS)).sentence


def test_reports_of_the_extensible_manager_and_of_a_stopped_store_grow_old_as_well() -> None:
    loads = {"b2:8080": BrokerLoadData(reported_at=NOW_MS - 31 * MINUTE_MS)}
    picture = replace(healthy(), snapshot=snapshot(brokers={}, extensible=ExtensibleDocument(loads=loads)))
    assert subjects(old_reports, picture) == ["b2:8080"]
    stored = {"b1:8080": None, "b2:8080": report("b2:8080", last_update=NOW_MS - 31 * MINUTE_MS)}
    assert subjects(old_reports, Picture(NOW_MS, store=store(brokers=stored))) == ["b2:8080"]


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"cpu": ResourceUsage(math.nan, 200)}, "cpu is nan of 200"),
        ({"cpu": ResourceUsage(-5, 200)}, "cpu is -5"),
        ({"bandwidth_out": ResourceUsage(300, 100)}, "bandwidth_out is 300 % of its limit"),
        ({"msg_rate_in": math.inf}, "msg_rate_in is inf"),
        ({"msg_throughput_out": -1.0}, "msg_throughput_out is -1"),
    ],
)
def test_figures_that_cannot_be_are_told(changed: dict[str, object], told: str) -> None:
    finding = only(absurd_reports, reported(**changed))
    assert finding.subject == "b2:8080"
    assert told in finding.sentence


@pytest.mark.parametrize("usage", [UNKNOWN_USAGE, ResourceUsage(0, 0), ResourceUsage(140, 100), ResourceUsage(5, 0)])
def test_figures_that_are_not_known_or_a_little_above_are_not_absurd(usage: ResourceUsage) -> None:
    assert subjects(absurd_reports, reported(bandwidth_in=usage)) == []


def test_shedding_that_is_off_is_told_with_where() -> None:
    views = [view(each) for each in BROKERS[:2]]
    views.append(view(BROKERS[2], settings={**SETTINGS, "loadBalancerSheddingEnabled": "false"}))
    finding = only(idle_shedder, replace(healthy(), brokers=tuple(views)))
    assert (finding.severity, finding.subject) == (Severity.INFO, "loadBalancerSheddingEnabled=false")
    assert "at b3:8080" in finding.sentence


def test_one_broker_alone_has_nobody_to_shed_to() -> None:
    alone = Picture(NOW_MS, brokers=(view("b1:8080", registered=frozenset({"b1:8080"})),))
    assert subjects(idle_shedder, alone) == ["b1:8080"]


def test_bundles_that_were_all_unloaded_a_short_while_ago_are_told() -> None:
    every = dict.fromkeys(BUNDLES, NOW_MS)
    assert (
        "none of them can be shed now"
        in only(cool_down, replace(healthy(), snapshot=snapshot(recently_unloaded=every))).sentence
    )
    some = replace(healthy(), snapshot=snapshot(recently_unloaded=dict.fromkeys(BUNDLES[1:], NOW_MS)))
    assert subjects(cool_down, some) == []


def test_a_pipeline_that_lags_is_a_warning_where_it_is_asked_for() -> None:
    late = replace(healthy(), pipeline_lag_s=90.0)
    assert only(late_pipeline, late).severity is Severity.INFO
    asked = {
        **SETTINGS,
        "loadManagerClassName": ManagerKind.EXTENSIBLE.class_name,
        "barycenterExtensiblePipelineEnabled": "true",
    }
    views = tuple(view(each, settings=asked) for each in BROKERS)
    assert only(late_pipeline, replace(late, brokers=views)).severity is Severity.WARNING
    assert subjects(late_pipeline, replace(healthy(), pipeline_lag_s=30.0)) == []


def test_a_pipeline_that_looks_no_more_is_a_warning_that_says_since_when_and_what_to_do() -> None:
    silent = replace(healthy(), pipeline_silent_s=90.0)
    finding = only(silent_pipeline, silent)
    assert (finding.severity, finding.subject) == (Severity.WARNING, "pipeline")
    since = datetime.fromtimestamp(NOW_MS / 1000 - 90, UTC)
    assert f"since {since:%Y-%m-%d %H:%M:%S} UTC (for 90 s)" in finding.sentence
    assert "get no new rows" in finding.sentence
    assert "barycenter pipeline status --data FOLDER" in finding.mend
    assert "barycenter pipeline run --data FOLDER" in finding.mend


def test_a_pipeline_that_is_silent_and_late_is_one_finding() -> None:
    silent = replace(healthy(), pipeline_silent_s=90.0, pipeline_lag_s=80.0)
    assert "decides by its own windows" in only(silent_pipeline, silent).sentence
    assert subjects(late_pipeline, silent) == []


@pytest.mark.parametrize("silent_s", [None, 0.0, 30.0])
def test_a_pipeline_that_looks_or_never_was_is_no_finding(silent_s: float | None) -> None:
    assert subjects(silent_pipeline, replace(healthy(), pipeline_silent_s=silent_s)) == []


def test_a_cluster_in_which_no_broker_balances_is_told_and_one_that_has_such_a_broker_is_not() -> None:
    lacking = {name: msgspec.structs.replace(each, only_assigns=True) for name, each in snapshot().brokers.items()}
    (finding,) = without_numpy(replace(healthy(), snapshot=snapshot(brokers=lacking)))
    assert finding.severity is Severity.WARNING
    assert "pip install 'pulsar-barycenter[balance]'" in finding.mend
    first = next(iter(lacking))
    (alone,) = without_numpy(replace(healthy(), snapshot=snapshot(brokers={first: lacking[first]})))
    assert (alone.severity, alone.subject) == (Severity.INFO, first)
    assert subjects(without_numpy, reported(only_assigns=True)) == []


def test_each_broker_that_has_to_split_its_own_bundles_is_told() -> None:
    lookups = {"b1:8080": BrokerLookupData(), "b2:8080": BrokerLookupData(only_assigns=True)}
    found = snapshot(brokers={}, extensible=ExtensibleDocument(lookups=lookups))
    assert subjects(without_numpy, replace(healthy(), snapshot=found)) == ["b2:8080"]
