"""The doctor's findings on the folder of ledgers, and how it reads one."""

from dataclasses import replace
from pathlib import Path

import pytest

from pulsar_barycenter.doctor.checks.ledgers import foreign_topics, ledgers_folder, ledgers_on_bookies
from pulsar_barycenter.doctor.picture import BookiesView, LedgersView
from pulsar_barycenter.doctor.reading.ledgers import read_ledgers
from pulsar_barycenter.ledger.folder_identity import IDENTITY, create_identity
from support.doctor_pictures import FOLDER, healthy, store


def test_the_folder_of_the_brokers_is_well() -> None:
    assert list(ledgers_folder(healthy())) == []
    assert list(ledgers_folder(replace(healthy(), ledgers=None))) == []
    assert list(ledgers_folder(replace(healthy(), store=store(ledgers_folder="")))) == [], "of one machine"


def test_another_folder_is_told_and_so_is_each_reason_why_one_will_not_do() -> None:
    for other in ("", "1e" * 16):
        (finding,) = ledgers_folder(replace(healthy(), ledgers=LedgersView("/own", other)))
        assert (finding.severity, finding.subject) == ("critical", "/own")
    unfit = LedgersView("/own", problems=(("it is slow", "make it quick"), ("it is small", "make it large")))
    found = list(ledgers_folder(replace(healthy(), ledgers=unfit)))
    assert [(each.severity, each.sentence, each.mend) for each in found] == [
        ("error", "it is slow", "make it quick"),
        ("error", "it is small", "make it large"),
    ]
    assert FOLDER not in str(found)


def test_a_folder_is_read_as_a_broker_would_and_left_as_it_was(tmp_path: Path) -> None:
    none = read_ledgers(str(tmp_path / "none"), several_machines=True)
    assert "does not exist" in none.problems[0][0]
    assert not (tmp_path / "none").exists()
    assert read_ledgers(str(tmp_path), several_machines=True) == LedgersView(str(tmp_path))
    assert list(tmp_path.iterdir()) == []
    name = create_identity(str(tmp_path))
    assert read_ledgers(str(tmp_path), several_machines=False).identity == name
    (tmp_path / IDENTITY).write_text("something else")
    assert (
        "does not contain 32 hexadecimal digits" in read_ledgers(str(tmp_path), several_machines=False).problems[0][0]
    )


def test_what_topics_lack_and_nobody_needs_on_bookies_is_told() -> None:
    fine = BookiesView(3)
    assert list(ledgers_on_bookies(replace(healthy(), bookies=fine))) == []
    lacking = BookiesView(3, (("persistent://t/n/a", 7, "it has no key"),), (8, 9))
    found = [
        (each.severity, each.subject, each.sentence) for each in ledgers_on_bookies(replace(healthy(), bookies=lacking))
    ]
    assert found == [
        ("critical", "persistent://t/n/a", "ledger 7 is missing on bookies or too short: it has no key"),
        ("info", "bookies", "2 ledgers of the brokers belong to no topic; one may be not listed yet"),
    ]
    unreadable = BookiesView(3, unreadable=(("persistent://t/n/a", "/managed-ledgers/t/n/persistent/a: not a list"),))
    (one,) = ledgers_on_bookies(replace(healthy(), bookies=unreadable))
    assert (one.severity, one.subject) == ("critical", "persistent://t/n/a")
    assert "/managed-ledgers/t/n/persistent/a" in one.sentence
    (few,) = ledgers_on_bookies(replace(healthy(), bookies=BookiesView(0)))
    assert (few.severity, few.sentence.split(":")[0]) == (
        "critical",
        "0 bookies accept writes, and a new ledger needs 2",
    )
    (failed,) = ledgers_on_bookies(replace(healthy(), bookies=BookiesView(failure="no answer")))
    assert failed.severity == "error"


def test_a_topic_that_python_brokers_refuse_is_found_with_its_reason() -> None:
    assert list(foreign_topics(healthy())) == []
    assert list(foreign_topics(replace(healthy(), bookies=BookiesView(3)))) == []
    view = BookiesView(3, foreign=(("persistent://t/n/a", "only Java brokers can serve the topic a: it is compacted"),))
    (finding,) = foreign_topics(replace(healthy(), bookies=view))
    assert (finding.severity, finding.subject) == ("warning", "persistent://t/n/a")
    assert finding.sentence.startswith("only Java brokers can serve the topic a: it is compacted. ")


@pytest.mark.parametrize("value", ["bookkeeper:uuid:cluster", "bookkeeper-pulsar:uuid:cluster"])
def test_messages_on_bookies_need_no_folder(value: str) -> None:
    on_bookies = replace(healthy(), store=store(ledgers_folder=value))
    (finding,) = ledgers_folder(on_bookies)
    assert "barycenterLedgerStorage=bookkeeper" in finding.mend
