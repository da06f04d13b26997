"""The `barycenter` program: one command for each thing a person does with it."""

import importlib
from typing import Any, Final

import click

from pulsar_barycenter import DISTRIBUTION
from pulsar_barycenter.cli.extras import extra_is_told
from pulsar_barycenter.cli.interrupt import ended_by_signals

_COMMANDS: Final = {
    "standalone": ("run.standalone", "Run a cluster on this machine."),
    "broker": ("run.broker", "Run one broker from a broker.conf."),
    "status": ("ask.status", "Tell how a cluster fares: leader, brokers, load, what is wrong."),
    "top": ("ask.top", "Follow a cluster on the whole terminal: brokers, bundles, decisions."),
    "monitor-brokers": (
        "ask.monitor_brokers",
        "Print brokers as pulsar-perf monitor-brokers does.",
    ),
    "decide": ("ask.decide", "Say what a strategy would do with a snapshot, and why."),
    "explain": (
        "ask.explain",
        "Say why a bundle is where it is, or why a broker sheds or does not.",
    ),
    "plan": ("replay.plan", "Foresee what a cluster would come to, and what if it were another."),
    "replay": ("replay.command", "Try load managers, strategies and settings on recorded load."),
    "advise": ("replay.advise", "Advise what balances a cluster best, by its history."),
    "balance-bench": (
        "replay.bench",
        "Run every strategy in every scenario of a cluster in trouble.",
    ),
    "move": ("operate.move", "Move a bundle to a broker; done when it is served there."),
    "execute": ("operate.execute", "Carry out a plan of moves at a bounded rate."),
    "drain": ("operate.drain", "Empty a broker, which stays empty until undrain."),
    "undrain": ("operate.undrain", "Let a drained broker have bundles again."),
    "verify": (
        "operate.verify",
        "Tell whether a plan's bundles are served where they were to go.",
    ),
    "cancel": ("operate.cancel", "Have a plan that is carried out begin no more moves."),
    "undo": ("operate.undo", "Print the way back from moves that were carried out, as a plan."),
    "admin": ("admin.command", "Administrate a cluster by the commands of pulsar-admin."),
    "config": ("ask.config", "Show and change the configuration of a running cluster."),
    "snapshot": ("ask.snapshot", "Save what the leader of a running cluster decides upon."),
    "doctor": ("ask.doctor", "Tell what is wrong with a cluster, and how to mend it."),
    "demo": ("run.demo", "Start a cluster, drive it with real clients, write a report."),
    "collect": ("record.collect", "Record the load of a running cluster."),
    "pipeline": (
        "pipeline.command",
        "Run the load pipeline on Spark, ask how it fares, compute anew.",
    ),
    "generate-load": (
        "record.generate_load",
        "Write the load reports of a made-up cluster, for trials and sizing.",
    ),
    "tokens": ("tokens", "Make keys and tokens by which clients say who they are."),
    "ledger": ("ledger", "Check and repair the messages of a stopped data folder."),
    "history": ("history.command", "Ask the recorded history of a cluster."),
}


class _LazyGroup(click.Group):
    """A group that imports a command only when it runs, so that `broker` never pays for `demo`."""

    def invoke(self, ctx: click.Context) -> Any:
        with ended_by_signals(), extra_is_told("this command"):
            return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        with extra_is_told(cmd_name):
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
