"""How the answers of two clusters to one line of pulsar-admin are compared, for `make compatibility`."""

import threading

import pytest

from support.admin_tool import Outcome
from support.admin_verbs import (
    BEGIN,
    ENDING,
    EQUAL,
    SHAPE,
    Line,
    Played,
    Reason,
    agree,
    compare,
    table,
    unexplained,
    with_section,
)
from support.http_record import HttpRecord


def played(printed: str, level: str = EQUAL, *, succeeded: bool = True, status: int = 200) -> Played:
    return Played(Line("topics stats t", level), Outcome(succeeded, printed, ""), (status,))


@pytest.mark.parametrize(
    ("level", "ours", "theirs", "same"),
    [
        (EQUAL, "b\na", "a\nb", True),
        (EQUAL, "a", "a\nb", False),
        (EQUAL, "x    [produce, consume]", "x    [consume, produce]", True),
        (EQUAL, '{"a": 1}', '{"a": 1, "b": null, "c": []}', True),
        (EQUAL, '{"a": 1}', '{"a": 2}', False),
        (EQUAL, '{"a": 1, "b": 2}', '{"a": 1}', False),
        (EQUAL, "Message 3:4:-1", "Message 17:0:-1", True),
        (EQUAL, '{"at": 1795766620682}', '{"at": 1795766627777}', True),
        (SHAPE, '{"rate": 1.5, "more": 1}', '{"rate": 0.25}', True),
        (SHAPE, "{}", '{"rate": 0.25}', False),
        (SHAPE, '{"rate": "1"}', '{"rate": 0.25}', False),
        (SHAPE, '{"each": [{"a": 1}]}', '{"each": [{"a": 1}, {"a": 2}]}', True),
        (SHAPE, '{"each": []}', '{"each": [{"a": 1}]}', False),
        (ENDING, "one", "other", True),
    ],
)
def test_answers_are_compared_by_the_level_of_their_line(level: str, ours: str, theirs: str, same: bool) -> None:
    assert agree(played(ours, level), played(theirs, level)) is same


def test_an_answer_that_a_verb_does_not_wait_for_is_still_that_of_its_line() -> None:
    record, is_asked, is_answered = HttpRecord("http://here"), threading.Event(), threading.Event()

    def ask() -> None:
        with record.one_request() as first:
            first.append(200)
            with record.one_request() as second:
                is_asked.set()
                assert is_answered.wait(60)
                second.append(204)

    thread = threading.Thread(target=ask)
    thread.start()
    assert is_asked.wait(60)
    assert record.taken() == [], "no answer is there yet"
    is_answered.set()
    assert record.taken(within_s=60) == [204, 200]
    assert record.taken() == []
    thread.join()


def test_refusals_are_the_same_if_their_status_is() -> None:
    refused = played("", succeeded=False, status=404)
    assert agree(refused, played("", succeeded=False, status=404))
    assert not agree(refused, played("", succeeded=False, status=409))
    assert not agree(refused, played(""))


def test_a_verb_that_differs_needs_a_reason_and_is_in_the_table() -> None:
    found = compare("5.0.1", ["topics stats", "topics list"], [played("a")], [played("b")])
    assert (found.same, list(found.differing), list(found.unheard)) == (0, ["topics stats"], ["topics list"])
    reasons = [Reason(("topics list",), "another"), Reason(("topics *",), "because")]
    assert unexplained(found, reasons) == []
    (told,) = unexplained(found, reasons[:1])
    assert told.startswith("$ topics stats t\n")
    section = table([found], reasons)
    assert "| 5.0.1 | 2 | 0 | 1 | 1 |" in section
    assert "| `topics` `stats` | because |" in section
    assert "another" not in section
    page = f"before\n{table([], [])}after\n"
    assert with_section(page, section) == f"before\n{section}after\n"
    assert section.startswith(BEGIN)
