"""What all commands have in common: formats, spans, addresses, and the answers to a misspelt word."""

import importlib
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from pulsar_barycenter.cli.asking.client import asked_url
from pulsar_barycenter.cli.main import main
from pulsar_barycenter.cli.moments import Seconds, span_ms
from pulsar_barycenter.load.reasons import Code, Compared, Reason, format_figure, render

RECORDED = str(Path(__file__).parents[3] / "tests" / "data" / "pipeline" / "cluster")


def run(*words: str) -> Result:
    return CliRunner().invoke(main, [*words])


def commands(group: click.Group, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from commands(command, (*words, name))
        elif command is not None:
            yield (*words, name), command


def test_whoever_prints_json_does_so_by_either_option() -> None:
    asked = {}
    for words, command in commands(main):
        options = {name for each in command.params for name in each.opts}
        if options & {"--json", "--format"} and words != ("history", "sql"):
            asked[" ".join(words)] = options >= {"--json", "--format"}
    assert sum(not words.startswith("admin ") for words in asked) == 30
    assert all(asked.values()), asked


def test_whoever_asks_brokers_takes_their_address_as_url() -> None:
    """As docs/command-line.md says; of `admin` the group takes it, as the tools of Pulsar have it."""
    asking = {words: {name for each in command.params for name in each.opts} for words, command in commands(main)}
    without = {" ".join(words) for words, options in asking.items() if "--auth-plugin" in options - {"--url"}}
    without -= {" ".join(words) for words, options in asking.items() if "--url" in options}
    assert without == {"monitor-brokers"}  # which takes `--connect-string`, as `pulsar-perf monitor-brokers`
    admin = main.get_command(click.Context(main), "admin")
    assert admin is not None
    assert {"--url", "--admin-url"} <= {name for each in admin.params for name in each.opts}


def test_both_options_print_the_same() -> None:
    base = ("history", "top", "--data", RECORDED)
    assert run(*base, "--json").stdout == run(*base, "--format", "json").stdout
    assert run(*base, "--json").stdout.startswith("{")
    assert not run(*base).stdout.startswith("{")


@pytest.mark.parametrize(("text", "seconds"), [("60", 60), ("60s", 60), ("2m", 120), ("1.5", 1.5), ("1h", 3600)])
def test_a_span_has_a_unit_or_is_of_seconds(text: str, seconds: float) -> None:
    assert Seconds(1).convert(text, None, None) == seconds
    if "." not in text:
        assert span_ms("--interval", text) == seconds * 1000


@pytest.mark.parametrize("text", ["", "0", "-1", "5x", "nan", "1e9", "0.5"])
def test_what_is_no_span_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter):
        Seconds(1).convert(text, None, None)


@pytest.mark.parametrize(
    ("value", "shown"), [(842_520, "822.8 KiB/s"), (1_186_000, "1.131 MiB/s"), (1000, "1000 bytes/s"), (0, "0 bytes/s")]
)
def test_sizes_have_one_kind_of_unit(value: float, shown: str) -> None:
    assert format_figure(value, "bytes/s") == shown


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (1.32988, "bytes/s", "1.33 bytes/s"),
        (0.0125823, "msg/s", "0.0126 msg/s"),
        (0.116667, "h", "0.117 h"),
        (0.004916, "%", "0.492 %"),
        (0.85041, "%", "85.04 %"),
        (1234.56, "msg/s", "1235 msg/s"),
        (999.7, "msg/s", "1000 msg/s"),
        (12_345_678, "", "12345678"),
        (1, "bundles", "1 bundle"),
        (2, "bundles", "2 bundles"),
    ],
)
def test_figures_have_few_digits(value: float, unit: str, shown: str) -> None:
    assert format_figure(value, unit) == shown


def test_figures_that_are_compared_are_told_apart() -> None:
    compared = Compared("rate", 0.12501, "above", "the limit", 0.125, "msg/s")
    told = render(Reason(code=Code.ALL_OVERLOADED, compared=(compared,)))
    assert "rate 0.12501 msg/s above the limit 0.125 msg/s" in told


def test_the_address_of_a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    assert asked_url(None) == "http://127.0.0.1:8080"
    monkeypatch.setenv("BARYCENTER_URL", "broker-1:8080/")
    assert asked_url(None) == "http://broker-1:8080"
    assert asked_url("https://b:8443") == "https://b:8443"


def test_the_environment_says_which_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BARYCENTER_URL", "127.0.0.1:1")
    for words in (
        ["decide"],
        ["snapshot", "--out", "-"],
        ["explain", "--broker", "a:1"],
        ["admin", "clusters", "list"],
        ["config", "diff"],
        ["status"],
        ["doctor"],
    ):
        assert "http://127.0.0.1:1" in run(*words).stderr


@pytest.mark.parametrize(("words", "meant"), [(["hstory"], "history"), (["history", "tpo"], "top")])
def test_a_misspelt_command_gets_the_nearest(words: list[str], meant: str) -> None:
    result = run(*words)
    assert result.exit_code == 2
    assert f"Did you mean '{meant}'?" in result.stderr


def test_the_shell_completes_commands() -> None:
    module = importlib.import_module("click.shell_completion")
    complete = module.BashComplete(main, {}, "barycenter", "_BARYCENTER_COMPLETE")
    assert [each.value for each in complete.get_completions([], "hi")] == ["history"]
    assert "--interval" in [each.value for each in complete.get_completions(["collect"], "--i")]
