"""The catalogue: which checks run on which picture, what counts after a second look, and the page."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from pulsar_barycenter.doctor import catalogue
from pulsar_barycenter.doctor.catalogue import (
    CHECKS,
    MAX_FINDINGS,
    Check,
    Diagnosis,
    confirmed,
    diagnose,
    needs_second_look,
)
from pulsar_barycenter.doctor.finding import ClusterFinding, Severity, Unseen, found
from pulsar_barycenter.doctor.picture import Part, Picture
from support.doctor_pictures import NOW_MS, SPACE, healthy, store, with_broker

PAGE = (Path(__file__).parents[3] / "docs" / "doctor.md").read_text()


def test_a_healthy_cluster_has_no_finding(subtests: pytest.Subtests) -> None:
    for check in CHECKS:
        with subtests.test(check=check.name):
            assert list(check.run(healthy())) == []
            assert check.tells.endswith(".")


def test_the_page_has_a_section_for_each_check_in_the_same_order() -> None:
    sections = [line.removeprefix("### ") for line in PAGE.splitlines() if line.startswith("### ")]
    assert sections == [check.name for check in CHECKS]


def test_what_cannot_be_looked_at_is_told_and_not_passed() -> None:
    diagnosis = diagnose(Picture(NOW_MS))
    assert diagnosis.findings == ()
    assert {each.what for each in diagnosis.unseen} == {check.name for check in CHECKS}
    stopped = diagnose(Picture(NOW_MS, store=store()))
    told = {each.what: each.why for each in stopped.unseen}
    assert told["silent-broker"] == "the brokers: not read"
    assert "tiling" not in told


def test_without_locks_or_records_owners_are_said_to_be_not_looked_at() -> None:
    """What the leader of the modular load manager decides upon names no owners."""
    told = {each.what for each in diagnose(replace(healthy(), store=None)).unseen}
    assert told == {
        "owner-gone",
        "owner-differs",
        "stuck-record",
        "boundary-copy",
        "unreadable-key",
        "ledgers-on-bookies",
        "foreign-topic",
    }


def test_the_checks_that_are_named_run_alone() -> None:
    spoilt = with_broker(healthy(), "b2:8080", failure="dead", boundaries={SPACE: ("0x00000000", "0xffffffff")})
    assert {each.check for each in diagnose(spoilt, ["tiling"]).findings} == set()
    assert {each.check for each in diagnose(spoilt, ["silent-broker"]).findings} == {"silent-broker"}


def test_findings_come_worst_first_and_decide_the_end() -> None:
    torn = replace(healthy(), store=store(boundaries={SPACE: ("0x00000000",)}))
    diagnosis = diagnose(with_broker(torn, "b2:8080", failure="dead"))
    ranks = [each.severity.rank for each in diagnosis.findings]
    assert ranks == sorted(ranks, reverse=True)
    assert diagnosis.findings[0].severity is Severity.CRITICAL
    assert diagnosis.fails(Severity.CRITICAL)
    assert not Diagnosis((found(Severity.INFO, "s", "t", "m"),), ()).fails(Severity.WARNING)


def test_what_a_second_look_does_not_find_again_is_dropped_if_the_cluster_may_have_moved() -> None:
    def one(check: str, subject: str) -> ClusterFinding:
        return ClusterFinding(check=check, severity=Severity.ERROR, subject=subject, sentence="", mend="")

    moved, stays, still = one("owner-differs", "a"), one("owner-differs", "b"), one("tiling", "c")
    first = Diagnosis((moved, stays, still), (Unseen("x", "y"),))
    assert needs_second_look(first)
    assert not needs_second_look(Diagnosis((still,), ()))
    assert confirmed(first, Diagnosis((stays, one("tiling", "d")), ())) == Diagnosis((stays, still), first.unseen)


def test_findings_of_one_check_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    def many(_: Picture) -> Iterator[ClusterFinding]:
        """There are many."""
        return (found(Severity.INFO, f"{number:06}", "s", "m") for number in range(MAX_FINDINGS + 7))

    monkeypatch.setattr(catalogue, "CHECKS", (Check("many", many, (Part.BROKERS,)),))
    diagnosis = diagnose(healthy())
    assert len(diagnosis.findings) == MAX_FINDINGS + 1
    assert diagnosis.findings[-1].subject == "7 more"
