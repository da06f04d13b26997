"""The options that `replay` and `advise` share: input, period and seeds; and the command line for reports."""

import shlex
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from pulsar_barycenter.cli.moments import moment_ms, span_ms
from pulsar_barycenter.lab.inputs import GENERATED, InputSpec, shape_of
from pulsar_barycenter.pipeline.history import END_OF_TIME

Command = TypeVar("Command", bound=Callable[..., Any])


def with_input(folder: str) -> Callable[[Command], Command]:
    """Add the options for the input of a replay: `inputs`, `shapes`, `since`, `until` and `step`.

    `folder` describes the accepted data folders in the help.
    """

    def add(command: Command) -> Command:
        for option in reversed(
            (
                click.option(
                    "--input",
                    "inputs",
                    multiple=True,
                    required=True,
                    metavar="INPUT",
                    help=f"{folder}, CSV traces of timestamp,value (repeated), a workload file (.yaml) of the"
                    f" OpenMessaging benchmark, or {GENERATED}.",
                ),
                click.option(
                    "--shape",
                    "shapes",
                    multiple=True,
                    metavar="KEY=VALUE",
                    help="The shape of CSV traces, workload files and synthetic load; may be repeated.",
                ),
                click.option("--since", default="", help="Begin of the period: 15m, 2h, 3d ago, or 2026-01-31T12:00."),
                click.option("--until", default="", help="End of the period, exclusive; in the same form."),
                click.option("--step", default="1m", show_default=True, help="Length of a step."),
            )
        ):
            command = option(command)
        return command

    return add


def input_of(inputs: Sequence[str], shapes: Sequence[str], since: str, until: str, step: str) -> InputSpec:
    """Return the input that these options describe.

    Raises:
        ReplayInputError: a shape is not valid.
        click.UsageError: a time is not valid.
    """
    return InputSpec(
        paths=tuple(inputs),
        shape=shape_of(shapes),
        since_ms=moment_ms("--since", since),
        until_ms=moment_ms("--until", until) or END_OF_TIME,
        step_ms=span_ms("--step", step),
    )


def seeds_of(text: str) -> list[int]:
    """Return the seeds that a text like `3` or `1-20` names.

    Raises:
        click.UsageError: the text is neither, or the range has too many seeds.
    """
    first, separator, last = text.partition("-")
    if not (first.isdecimal() and (last.isdecimal() or not separator)) or len(text) > 20:
        raise click.UsageError(f"--seeds {text}: give a number, or a range like 1-20")
    found = range(int(first), int(last or first) + 1)
    if not 1 <= len(found) <= 10_000:
        raise click.UsageError(f"--seeds {text}: give one to 10000 seeds")
    return list(found)


def command_of(context: click.Context) -> str:
    """Return the command line of a click command, without options that have their default value."""
    words = ["barycenter", context.info_name or ""]
    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name or "")
        if source is not click.core.ParameterSource.COMMANDLINE:
            continue
        value = context.params[parameter.name or ""]
        for item in value if isinstance(value, tuple) else (value,):
            words += [parameter.opts[0], str(item)]
    return shlex.join(words)
