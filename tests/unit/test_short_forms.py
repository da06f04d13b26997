"""The short form has some cases of a test that is marked `drawn`, and each commit draws others."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

import pytest

from support.short_forms import not_drawn


@dataclass(frozen=True, slots=True, eq=False)
class _Case:
    """What `not_drawn` asks of a case."""

    nodeid: str
    marks: tuple[pytest.Mark, ...] = ()

    def iter_markers(self, name: str) -> Iterator[pytest.Mark]:
        return (mark for mark in self.marks if mark.name == name)

    def get_closest_marker(self, name: str) -> pytest.Mark | None:
        return next(self.iter_markers(name), None)


TWO = pytest.mark.drawn(2).mark
FULL = pytest.mark.full_form.mark
PLAIN = [_Case("a.py::test_plain"), _Case("a.py::test_cases[1]"), _Case("a.py::test_cases[2]")]
DRAWN = [_Case(f"a.py::test_drawn[{number}]@group", (TWO,)) for number in range(6)]


def left_out(cases: list[_Case], seed: int) -> set[_Case]:
    return cast(set[_Case], not_drawn(cast(list[pytest.Item], cases), seed))


def test_so_many_cases_are_kept_and_no_other_test_loses_one() -> None:
    others = [_Case(f"b.py::test_drawn[{number}]", (TWO,)) for number in range(3)]
    found = left_out([*PLAIN, *DRAWN, *others], 1)
    assert (len(found & set(DRAWN)), len(found & set(others)), len(found)) == (4, 1, 5)


def test_every_process_draws_the_same_and_in_the_end_all_cases_have_their_turn() -> None:
    assert left_out(DRAWN, 1) == left_out([*DRAWN[::-1], *PLAIN], 1)
    assert set.intersection(*(left_out(DRAWN, seed) for seed in range(50))) == set()


def test_what_only_the_full_form_has_takes_no_place() -> None:
    full = [_Case(f"a.py::test_drawn[{number}]", (TWO, FULL)) for number in range(6, 20)]
    assert left_out([*DRAWN[:2], *full], 1) == set()


def test_of_a_module_tests_are_drawn_with_all_their_cases() -> None:
    two = pytest.mark.drawn_tests(2).mark
    cases = [_Case(f"c.py::test_{test}[{case}]", (two,)) for test in "abcd" for case in range(3)]
    found = left_out([*PLAIN, *cases], 1)
    assert {case.nodeid.partition("[")[0] for case in found} | {f"c.py::test_{test}" for test in "abcd"} == {
        f"c.py::test_{test}" for test in "abcd"
    }
    assert len(found) == 6
    assert len({case.nodeid.partition("[")[0] for case in found}) == 2
    assert set.intersection(*(left_out(cases, seed) for seed in range(50))) == set()


def test_tests_of_a_subject_are_drawn_from_together_wherever_they_are() -> None:
    one = pytest.mark.drawn(1, of="tables").mark
    cases = [_Case("a.py::test_of_tables", (one,)), _Case("b.py::test_of_tables", (one,))]
    assert {len(left_out([*PLAIN, *cases], seed)) for seed in range(20)} == {1}
    assert set.intersection(*(left_out(cases, seed) for seed in range(50))) == set()


def test_a_case_that_is_asked_for_alone_is_kept() -> None:
    assert [left_out([case], 1) for case in DRAWN] == [set()] * len(DRAWN)
