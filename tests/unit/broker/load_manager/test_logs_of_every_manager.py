"""Reports and decisions of every load manager enter the same logs, with the name of the manager."""

from pathlib import Path

import pytest

from pulsar_barycenter.cluster_logs.decision_log import read_decisions
from pulsar_barycenter.load.managers import ManagerKind
from pulsar_barycenter.load.reports.load_report import LocalBrokerData, decode_report
from support.manager_logs import BROKERS, MANAGERS, record_every_manager


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    record_every_manager(folder)
    return folder


def reports_of(data: Path, kind: ManagerKind) -> list[LocalBrokerData]:
    found = [decode_report(file.read_bytes()) for file in (data / "load-reports").glob("*/*.json")]
    mine = (report for report in found if report.broker_id == BROKERS[kind])
    return sorted(mine, key=lambda report: report.sequence)


@pytest.mark.parametrize("kind", MANAGERS)
def test_reports_of_every_manager_enter_one_log_in_one_form(data: Path, kind: ManagerKind) -> None:
    reports = reports_of(data, kind)
    assert [report.sequence for report in reports] == list(range(1, len(reports) + 1))
    newest = reports[-1]
    assert newest.load_manager_class_name == kind.class_name
    assert newest.incarnation
    assert newest.cpu.percent == 40
    assert newest.last_update > 0
    bundles = [bundle for bundle in newest.last_stats if bundle.startswith("public/default/")]
    assert len(bundles) == 2
    assert set(bundles) <= set(newest.bundles)


@pytest.mark.parametrize("kind", MANAGERS)
def test_each_decision_says_which_manager_and_strategy_made_it(data: Path, kind: ManagerKind) -> None:
    decisions = [each for each in read_decisions(data) if each.by == BROKERS[kind]]
    assert {each.kind for each in decisions} == {"assign", "shed", "elect"}
    assert {each.manager for each in decisions} == {kind}
    assert all(each.strategy for each in decisions if each.kind != "elect"), [each.sentence for each in decisions]
