"""Groups of commands, as their help shows them."""

import click


class CommandGroup(click.Group):
    """A group whose help tells the first sentence of each command whole, in as many lines as it takes."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        names = self.list_commands(ctx)
        found = [(name, command) for name in names if (command := self.get_command(ctx, name)) is not None]
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.get_short_help_str(limit=1000)) for name, command in found])
