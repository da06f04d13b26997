"""The help of a group of commands."""

import pytest
from click.testing import CliRunner

from pulsar_barycenter.cli.main import main


@pytest.mark.parametrize("group", [[], ["history"], ["ledger"], ["pipeline"]])
@pytest.mark.parametrize("columns", [60, 80, 120])
def test_the_help_of_a_group_tells_the_first_sentence_of_each_command_whole(group: list[str], columns: int) -> None:
    result = CliRunner().invoke(main, [*group, "--help"], terminal_width=columns)
    shown = result.output.partition("Commands:\n")[2]
    assert shown
    assert "..." not in shown
    assert max(map(len, shown.splitlines())) <= columns
