"""`barycenter collect` with failing rounds, and how it ends; the collector's own tests cover complete runs."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from click.testing import CliRunner

from pulsar_barycenter.cli.main import main
from pulsar_barycenter.cli.record.collect import _printer
from pulsar_barycenter.observer.collecting import collect_until, locked_for_recording
from pulsar_barycenter.observer.collector import CollectError, Collector, Round
from support.process_state import kept_log

WELL = Round(at=1_790_000_000_000, brokers=2, bundles=1_500, failed={"b:1": "not now"})


class Rounds:
    """Instead of a collector: a round for each of `outcomes`."""

    def __init__(self, *outcomes: Round | CollectError) -> None:
        self._outcomes = iter(outcomes)

    async def collect(self) -> Round:
        outcome = next(self._outcomes)
        if isinstance(outcome, CollectError):
            raise outcome
        return outcome


async def go_round(*outcomes: Round | CollectError, stop: bool = False) -> tuple[bool, list[Any]]:
    """Go round once for each outcome, or until stopped after the first."""
    told: list[Any] = []
    stopped = asyncio.Event()
    if stop:
        stopped.set()
    rounds = 0 if stop else len(outcomes)
    ended_well = await collect_until(cast(Collector, Rounds(*outcomes)), stopped, 0.001, rounds, told.append)
    return ended_well, told


async def test_a_first_round_that_fails_ends_it() -> None:
    with pytest.raises(CollectError, match="nobody"):
        await go_round(CollectError("nobody"), WELL)


async def test_a_later_round_that_fails_is_told_and_asked_again() -> None:
    assert await go_round(WELL, CollectError("gone"), WELL) == (True, [WELL, "gone", WELL])


async def test_a_last_round_that_fails_is_no_good_end() -> None:
    assert await go_round(WELL, CollectError("gone")) == (False, [WELL, "gone"])


async def test_a_signal_ends_it_after_the_round_that_is_under_way() -> None:
    assert await go_round(WELL, CollectError("never asked"), stop=True) == (True, [WELL])


def test_a_round_is_told_with_who_gave_nothing_and_why(capsys: pytest.CaptureFixture[str]) -> None:
    tell = _printer(Path("data"), as_json=False)
    tell(WELL)
    tell("cannot list the brokers")
    out, err = capsys.readouterr()
    assert out == "2026-09-21 14:13:20 UTC  recorded 2 brokers, 1,500 bundles → data\n"
    tries = "cannot list the brokers; the next round of `barycenter collect` tries again"
    assert err == f"  b:1: not now\nbarycenter: {tries}\n"


def test_owners_are_counted_and_why_they_are_not_known_is_told_when_it_changes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    tell = _printer(Path("data"), as_json=False)
    known = Round(at=1_790_000_000_000, brokers=2, bundles=1_500, owned=4_000)
    unknown = Round(at=1_790_000_000_000, brokers=2, bundles=1_500, ownership="kept elsewhere")
    for each in (known, unknown, unknown, known):
        tell(each)
    out, err = capsys.readouterr()
    assert [line.partition("  ")[2] for line in out.splitlines()] == [
        "recorded 2 brokers, 1,500 bundles, owners of 4,000 → data",
        *["recorded 2 brokers, 1,500 bundles → data"] * 2,
        "recorded 2 brokers, 1,500 bundles, owners of 4,000 → data",
    ]
    assert err == "  kept elsewhere\n  the owners of the bundles can be read again\n"


def test_why_the_rules_cannot_be_read_is_told_when_it_changes(capsys: pytest.CaptureFixture[str]) -> None:
    tell = _printer(Path("data"), as_json=False)
    known = Round(at=1_790_000_000_000, brokers=2, bundles=1_500)
    unknown = Round(at=1_790_000_000_000, brokers=2, bundles=1_500, policies="403 no rights")
    for found in (known, unknown, unknown, known, known):
        tell(found)
    assert capsys.readouterr().err == (
        "  the rules of administrators cannot be read: 403 no rights\n  the rules of administrators can be read again\n"
    )


@pytest.fixture
def logging_as_before() -> Iterator[None]:
    """The command sends the log of its process to standard error."""
    with kept_log():
        yield


@pytest.mark.usefixtures("logging_as_before")
def test_a_second_command_for_a_folder_is_refused(tmp_path: Path) -> None:
    with locked_for_recording(tmp_path):
        result = CliRunner().invoke(main, ["collect", "--admin-url", "http://127.0.0.1:1", "--out", str(tmp_path)])
    assert (result.exit_code, "another process records into" in result.stderr) == (1, True)


@pytest.mark.usefixtures("logging_as_before")
@pytest.mark.parametrize(
    ("url", "code", "said"),
    [
        ("pulsar://a:6650", 2, "a web address begins with http:// or https://"),
        ("127.0.0.1:1", 1, "barycenter: cannot list the brokers: GET http://127.0.0.1:1/admin/v2/brokers"),
        ("http://127.0.0.1:1", 1, "barycenter: cannot list the brokers: GET http://127.0.0.1:1/admin/v2/brokers"),
    ],
)
def test_an_address_that_is_none_or_does_not_answer_ends_the_command(
    tmp_path: Path, url: str, code: int, said: str
) -> None:
    result = CliRunner().invoke(main, ["collect", "--admin-url", url, "--out", str(tmp_path), "--rounds", "1"])
    assert result.exit_code == code, result.output
    assert said in result.stderr
