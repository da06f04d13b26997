"""`barycenter history` and `barycenter pipeline refold` when there is nothing to report."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from pulsar_barycenter.cli.main import main


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["history", "top", "--since", "1h", "--until", "2h"], 2, "--since 1h is not before --until 2h"),
        (["history", "top", "--since", "yesterday"], 2, "--since yesterday: give a span like 90s"),
        (["history", "bundle", "t/n"], 2, "t/n:"),
        (["history", "imbalance"], 1, "barycenter: "),
        (["pipeline", "refold"], 1, "no samples under {data}/tables; `barycenter pipeline run --data {data}` computes"),
    ],
)
def test_a_question_that_has_no_answer_says_what_to_do(tmp_path: Path, words: list[str], code: int, said: str) -> None:
    result = CliRunner().invoke(main, [*words, "--data", str(tmp_path)])
    assert result.exit_code == code, result.output
    assert said.format(data=tmp_path) in result.stderr.replace("\n", " ")
