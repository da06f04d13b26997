"""Brokers that are silent, that disagree on members or leader, and clocks that differ."""

from dataclasses import replace

import msgspec
import pytest

from pulsar_barycenter.config.sources import EarlierChange, NotedChange
from pulsar_barycenter.doctor.checks.brokers import clocks, drained, leadership, registration, silent_brokers
from pulsar_barycenter.doctor.finding import Severity
from pulsar_barycenter.doctor.picture import Picture
from pulsar_barycenter.load.policies import DRAINED_KEY
from support.doctor_pictures import BROKERS, SETTINGS, healthy, only, store, subjects, view, with_broker


def test_a_broker_that_does_not_answer_is_told_with_the_reason() -> None:
    finding = only(silent_brokers, with_broker(healthy(), "b2:8080", failure="no answer: TimeoutError"))
    assert (finding.subject, finding.severity) == ("b2:8080", Severity.ERROR)
    assert "TimeoutError" in finding.sentence


def test_a_broker_that_misses_another_is_told_by_the_store_or_by_the_others() -> None:
    for picture in (healthy(), replace(healthy(), store=None)):
        finding = only(registration, with_broker(picture, "b3:8080", registered=frozenset({"b3:8080", "b1:8080"})))
        assert finding.subject == "b3:8080"
        assert "missing: b2:8080" in finding.sentence


def test_a_broker_that_answers_and_is_not_registered_is_told() -> None:
    picture = replace(healthy(), store=store(brokers=dict.fromkeys(BROKERS[:2])))
    assert "is not registered" in " ".join(each.sentence for each in registration(picture) if each.subject == "b3:8080")


def test_two_leaders_are_critical() -> None:
    picture = with_broker(healthy(), "b2:8080", leads=True, leader="b2:8080")
    found = {(each.severity, each.subject) for each in leadership(picture)}
    assert (Severity.CRITICAL, "b1:8080, b2:8080") in found
    assert (Severity.ERROR, "b1:8080, b2:8080") in found, "and brokers name different ones"


def test_a_leader_that_believes_that_it_follows_is_told() -> None:
    assert "does not act as one" in only(leadership, with_broker(healthy(), "b1:8080", leads=False)).sentence


def test_a_broker_that_leads_and_names_another_is_told() -> None:
    picture = with_broker(healthy(), "b1:8080", leader="b2:8080")
    assert "it acts as the leader and names b2:8080" in " ".join(each.sentence for each in leadership(picture))


def test_nobody_leads() -> None:
    picture = replace(healthy(), brokers=tuple(view(each, leader="", leads=False) for each in BROKERS))
    picture = replace(picture, store=store(leaders={}))
    assert subjects(leadership, picture) == ["leader"]


def test_a_leader_that_does_not_answer_is_told() -> None:
    assert subjects(leadership, with_broker(healthy(), "b1:8080", failure="dead")) == ["b1:8080"]


def test_a_leader_that_is_not_registered_is_told() -> None:
    picture = replace(healthy(), brokers=tuple(view(each, leader="gone:8080", leads=False) for each in BROKERS))
    assert "gone:8080" in subjects(leadership, picture)


def test_a_store_that_names_another_leader_is_told() -> None:
    picture = replace(healthy(), store=store(leaders={"/loadbalance/leader": "b2:8080"}))
    assert subjects(leadership, picture) == ["/loadbalance/leader"]
    other = replace(healthy(), store=store(leaders={"/loadbalance/extension/leader": "b2:8080"}))
    assert subjects(leadership, other) == [], "nobody elects there"


@pytest.mark.parametrize(
    ("ahead_ms", "severity"),
    [(0, None), (2_999, None), (3_000, Severity.WARNING), (31_000, Severity.ERROR)],
)
def test_clocks_differ_by_more_than_reading_them_explains(ahead_ms: int, severity: Severity | None) -> None:
    """The others are at most 1,000 ms ahead of the doctor's clock, so this one is at least 1,000 ms less ahead."""
    picture = with_broker(healthy(), "b2:8080", clock_ms=(ahead_ms, ahead_ms + 1_200))
    assert [each.severity for each in clocks(picture)] == ([] if severity is None else [severity])
    assert set(subjects(clocks, picture)) <= {"b2:8080"}


def with_drained(text: str, change: NotedChange | None = None) -> Picture:
    told = {"settings": {**SETTINGS, DRAINED_KEY: text}, "overrides": {DRAINED_KEY: text}}
    changes = {} if change is None else {DRAINED_KEY: change}
    brokers = tuple(view(each, **told, setting_changes=changes) for each in BROKERS)
    return replace(healthy(), brokers=brokers)


def test_a_drained_broker_is_told_with_who_when_why_and_what_ends_it() -> None:
    change = NotedChange(by="alice", at=1_763_000_000_000, value="b2:8080", before=",", why="a new disk")
    finding = only(drained, with_drained("b2:8080", change))
    assert (finding.subject, finding.severity) == ("b2:8080", Severity.INFO)
    assert finding.sentence.endswith("it serves 1 yet. Drained by alice at 2025-11-13 02:13:20 UTC: a new disk")
    assert finding.mend.startswith("barycenter undrain b2:8080 --bring-back --yes")
    assert subjects(drained, with_drained(",")) == subjects(drained, healthy()) == []


def test_who_drained_is_said_of_each_broker_as_far_as_it_was_noted_and_a_broker_that_is_gone_is_told() -> None:
    change = NotedChange(by="alice", at=1_763_000_000_000, value="b2:8080,gone:1", before="b2:8080")
    earlier, gone = drained(with_drained("b2:8080,gone:1", change))
    assert "alice" not in earlier.sentence
    assert "is not registered. Drained by alice" in gone.sentence
    known = msgspec.structs.replace(
        change, earlier={"b2:8080": EarlierChange(by="bob", at=1_763_000_000_000, why="disk")}
    )
    earlier, gone = drained(with_drained("b2:8080,gone:1", known))
    assert earlier.sentence.endswith("Drained by bob at 2025-11-13 02:13:20 UTC: disk")
    assert "Drained by alice" in gone.sentence
    overwritten = NotedChange(by="alice", at=1, value="other:1", before="")
    assert "alice" not in only(drained, with_drained("b2:8080", overwritten)).sentence
