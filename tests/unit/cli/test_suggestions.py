"""Suggestions for misspelt words, in a sentence."""

import pytest

from pulsar_barycenter.terminal.suggestions import did_you_mean


@pytest.mark.parametrize(
    ("word", "known", "said"),
    [
        ("b1", ["a:8080"], "; did you mean a:8080?"),
        ("b1", ["a:8080", "c:8080"], "; did you mean a:8080 or c:8080?"),
        ("b1", ["a:8080", "c:8080", "d:8080"], "; did you mean a:8080, c:8080 or d:8080?"),
        ("orders", ["order", "orders-2", "zzz"], "; did you mean order or orders-2?"),
        ("b1", [], ""),
        ("b1", [f"zz-{number}" for number in range(6)], ""),
    ],
)
def test_names_are_offered_in_a_sentence(word: str, known: list[str], said: str) -> None:
    assert did_you_mean(word, known) == said
