"""Groups of commands, and the layout of their help."""

import importlib
from collections.abc import Mapping

import click

from pulsar_barycenter.cli.extras import reports_missing_extra


class CommandGroup(click.Group):
    """A click group of commands whose help shows the complete first sentence of each command, on several lines if
    needed.
    """

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        names = self.list_commands(ctx)
        found = [(name, command) for name in names if (command := self.get_command(ctx, name)) is not None]
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.get_short_help_str(limit=1000)) for name, command in found])


class LazyCommandGroup(click.Group):
    """A click group of commands that imports the module of a command only when that command runs.

    A command then works without the libraries of the other commands. `modules` maps the name of a command to its module
    below `pulsar_barycenter.cli`, which defines `command`, and to the sentence for the help.
    """

    def __init__(self, *, modules: Mapping[str, tuple[str, str]], name: str, help: str) -> None:  # noqa: A002
        super().__init__(name=name, help=help)
        self._modules = dict(modules)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._modules)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._modules:
            return None
        with reports_missing_extra(f"{self.name} {cmd_name}"):
            module = importlib.import_module(f"pulsar_barycenter.cli.{self._modules[cmd_name][0]}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, sentence) for name, (_, sentence) in self._modules.items()])
