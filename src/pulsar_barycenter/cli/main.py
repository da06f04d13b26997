"""The `barycenter` program: the list of its commands."""

import importlib
from typing import Any, Final

import click

from pulsar_barycenter import DISTRIBUTION
from pulsar_barycenter.cli.extras import reports_missing_extra
from pulsar_barycenter.cli.interrupt import ended_by_signals
from pulsar_barycenter.standalone.scheduling import imports_without_collections

_COMMANDS: Final = {
    "standalone": ("run.standalone", "Run a cluster on this machine."),
    "broker": ("run.broker", "Run one broker from a broker.conf."),
    "status": ("ask.status", "Show the state of a cluster: leader, brokers, load, problems."),
    "top": ("ask.top", "Show a cluster live on the whole terminal: brokers, bundles, decisions."),
    "monitor-brokers": (
        "ask.monitor_brokers",
        "Print brokers in the tables of pulsar-perf monitor-brokers.",
    ),
    "decide": ("ask.decide", "Show what a strategy would do with a snapshot, and why."),
    "explain": (
        "ask.explain",
        "Explain why a bundle is on its broker, or why a broker sheds bundles or keeps them.",
    ),
    "plan": ("replay.plan", "Predict the next decisions and loads of a cluster, also after changes to it."),
    "replay": ("replay.command", "Try load managers, strategies and settings on recorded load."),
    "advise": ("replay.advise", "Recommend the strategy and settings that suit a cluster's recorded load."),
    "balance-bench": (
        "replay.bench",
        "Run every strategy in every scenario, and compare the results.",
    ),
    "balance": ("balance.command", "Balance a running cluster from outside, or show what would be moved."),
    "watch": ("watch", "Show a cluster from outside on the dashboard: its load, its moves, and why."),
    "move": ("operate.move", "Move a bundle to a broker, and wait until the broker serves it."),
    "execute": ("operate.execute", "Carry out a plan of moves at a bounded rate."),
    "drain": ("operate.drain", "Move all bundles away from a broker, and keep it empty until undrain."),
    "undrain": ("operate.undrain", "Let a drained broker get bundles again."),
    "roll": ("operate.roll", "Restart or replace all brokers one after the other, with few moves."),
    "verify": (
        "operate.verify",
        "Check that the planned brokers serve the bundles of a plan.",
    ),
    "cancel": ("operate.cancel", "Stop a running plan after the moves in progress."),
    "undo": ("operate.undo", "Print a plan that reverses the moves of a journal."),
    "admin": ("admin.command", "Administer a cluster with the commands of pulsar-admin."),
    "config": ("ask.config", "Show and change the configuration of a running cluster."),
    "snapshot": ("ask.snapshot", "Save the input of the leader's decisions to a file."),
    "doctor": ("ask.doctor", "Find problems of a cluster, and print how to repair each."),
    "demo": ("run.demo", "Start a cluster, put load on it with real clients, write a report."),
    "collect": ("record.collect", "Record the load of a running cluster."),
    "import": ("record.import_command", "Make load reports of stored metrics, without waiting for a recording."),
    "pipeline": (
        "pipeline.command",
        "Run the load pipeline on Spark, show its state, compute tables again.",
    ),
    "generate-load": (
        "record.generate_load",
        "Write synthetic load reports, for trials and sizing.",
    ),
    "tokens": ("tokens", "Create keys and tokens for the authentication of clients."),
    "ledger": ("ledger.command", "Check, repair and migrate the messages of a stopped data folder."),
    "history": ("history.command", "Query the recorded history of a cluster."),
}


class _LazyGroup(click.Group):
    """The click group of all commands, which imports a command only when it runs, so that `broker` does not load the
    libraries of `demo`.
    """

    def invoke(self, ctx: click.Context) -> Any:
        with ended_by_signals(), reports_missing_extra("this command"):
            return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        with reports_missing_extra(cmd_name), imports_without_collections():
            module = importlib.import_module(f"pulsar_barycenter.cli.{_COMMANDS[cmd_name][0]}")
        command: click.Command = module.command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in _COMMANDS and not args[0].startswith("-") and not ctx.resilient_parsing:
            raise click.NoSuchCommand(args[0], possibilities=list(_COMMANDS), ctx=ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in _COMMANDS.items()])


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name=DISTRIBUTION)
def main() -> None:
    """A Pulsar-compatible broker cluster that balances itself."""
