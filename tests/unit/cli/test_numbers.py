"""Options whose value is a number: only finite ones within the range are accepted."""

import click
import pytest
from click.testing import CliRunner

from pulsar_barycenter.cli.main import main
from pulsar_barycenter.cli.numbers import Number


@pytest.mark.parametrize("text", ["nan", "NaN", "inf", "-inf", "0.5", "x"])
def test_what_is_no_number_of_the_range_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter):
        Number(1).convert(text, None, None)


def test_a_number_of_the_range_is_returned() -> None:
    assert Number(1, 3).convert("2.5", None, None) == 2.5


def test_a_limit_that_is_no_number_is_refused_by_a_command() -> None:
    done = CliRunner().invoke(main, ["roll", "--url", "http://127.0.0.1:1", "--room", "nan"])
    assert done.exit_code == 2
    assert "nan is not a finite number" in done.stderr
