"""`barycenter roll`: restarts or replaces all brokers of a cluster, one after the other."""

from pathlib import Path
from typing import Final

import click

from pulsar_barycenter.cli.asking.client import asked_url
from pulsar_barycenter.cli.asking.options import with_why
from pulsar_barycenter.cli.failure import fail
from pulsar_barycenter.cli.formats import with_format
from pulsar_barycenter.cli.numbers import Number
from pulsar_barycenter.cli.operate.carrying_out import with_cluster, with_pace
from pulsar_barycenter.cli.operate.rolling import Given, Output, carry_out_roll
from pulsar_barycenter.observer.collector import CollectError, admin_urls
from pulsar_barycenter.operations.executor import NotNowError, Pace, RefusedError
from pulsar_barycenter.operations.journal_file import JournalError
from pulsar_barycenter.operations.rolling.contract import Hooks, RollOptions
from pulsar_barycenter.operations.rolling.hooks import CommandHooks, PersonHooks
from pulsar_barycenter.operations.rolling.order import Wanted
from pulsar_barycenter.terminal.errors import in_words

_PERSON_S: Final = 86_400.0


@click.command(name="roll")
@with_cluster
@with_pace
@with_why("The reason; the journal of moves and the brokers store it.")
@click.option(
    "--journal",
    "journal_file",
    default="roll.journal",
    show_default=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="The journal of the roll, by which the same command goes on. Moves are in NAME.moves.journal beside it, which "
    "`undo` reads.",
)
@click.option(
    "--restart-with",
    metavar="COMMAND",
    help="The command that restarts a broker, with {broker}, {host}, {port} and {pod}. It must be safe to run twice. "
    "With --second-pool it ends an old broker.",
)
@click.option(
    "--wait-for-me",
    is_flag=True,
    help="Instead of --restart-with: print which broker to restart, and wait until it is back.",
)
@click.option(
    "--start-with",
    default="",
    metavar="COMMAND",
    help="The command that starts a broker of the second pool.  [default: you start it]",
)
@click.option("--second-pool", "pool", default="", metavar="HOST:PORT,…", help="The brokers that replace the old ones.")
@click.option("--broker", "only", multiple=True, metavar="HOST:PORT", help="Roll only this broker; may be repeated.")
@click.option(
    "--batch",
    default=1,
    show_default=True,
    type=click.IntRange(1, 1_000),
    help="The number of brokers that restart at the same time.",
)
@click.option(
    "--room",
    default=1.2,
    show_default=True,
    type=Number(1, 100),
    help="The limit of a receiver: this times an equal share of the brokers that serve during a step.",
)
@click.option(
    "--statefulset",
    default="",
    metavar="[NAMESPACE/]NAME",
    help="The StatefulSet of the brokers: check it by kubectl, and delete pods unless --restart-with says otherwise.",
)
@click.option(
    "--canary",
    default="",
    metavar="POLICY",
    help="Restart the primary brokers of this isolation policy first, then stop, so that you can look at them.",
)
@click.option("--no-refill", is_flag=True, help="Bring no bundles to the brokers that restarted last.")
@click.option("--leave-behind", is_flag=True, help="Restart a broker also if a policy keeps bundles on it.")
@click.option("--despite-findings", is_flag=True, help="Begin also if `barycenter doctor` finds errors.")
@click.option("--rollback", "is_rollback", is_flag=True, help="Roll back what the journal says was done.")
@click.option("--abort", "is_abort", is_flag=True, help="End the roll of the journal, and restore the settings.")
@click.option("--dry-run", is_flag=True, help="Only show the plan, also with --yes.")
@click.option(
    "--service-url",
    default="",
    help="The service URL, to read the load topics of Apache Pulsar's extensible load manager.",
)
@click.option(
    "--hook-timeout",
    "hook_s",
    default=600.0,
    show_default=True,
    type=Number(1, 86_400),
    help="Seconds within which a command must end.",
)
@click.option(
    "--back-timeout",
    "back_s",
    default=600.0,
    show_default=True,
    type=Number(1, 86_400),
    help="Seconds within which a restarted broker must be in service; with --wait-for-me a day.",
)
@click.option(
    "--reports-timeout",
    "reports_s",
    default=600.0,
    show_default=True,
    type=Number(1, 86_400),
    help="Seconds within which load reports must arrive.",
)
@with_format("text", "json", json="one object on each line: plan, progress, move, report")
def command(
    url: str | None,
    yes: bool,
    timeout_s: float,
    at_once: int,
    per_minute: float,
    journal_file: Path,
    why: str,
    restart_with: str | None,
    wait_for_me: bool,
    start_with: str,
    pool: str,
    only: tuple[str, ...],
    batch: int,
    room: float,
    statefulset: str,
    canary: str,
    no_refill: bool,
    leave_behind: bool,
    despite_findings: bool,
    is_rollback: bool,
    is_abort: bool,
    dry_run: bool,
    service_url: str,
    hook_s: float,
    back_s: float,
    reports_s: float,
    form: str,
) -> None:
    """Restart all brokers of Barycenter or Apache Pulsar one after the other, with few moves; the leader is last.

    The command switches shedding and splitting off, moves the bundles of a broker away, has it restarted, and waits
    until it is in service and the load reports have arrived. Then comes the next. At the end it restores the settings.
    With --second-pool, old brokers are replaced by new ones, and each bundle moves once.

    You can stop the command at any time: the same command goes on, also after a crash; --abort restores the settings.
    The journal has what was done; moves are in a second one, which `undo` reads.

    Without --yes the command only shows the plan. docs/roll.md describes each step.

    Exit code: 0 if the roll is finished, or its canary brokers have restarted; 1 if it stopped; 2 for wrong usage; 130
    after Ctrl-C.
    """
    if is_rollback and is_abort:
        raise click.UsageError("--rollback and --abort exclude each other: give one of them")
    acts = yes and not dry_run
    ways = (restart_with is not None or bool(statefulset)) + wait_for_me
    if not is_abort and acts and ways != 1:
        raise click.UsageError("give either --restart-with COMMAND, --statefulset NAME or --wait-for-me")
    names = tuple(filter(None, (name.strip() for name in pool.split(","))))
    if len(set(names)) < len(names):
        raise click.UsageError("--second-pool names a broker twice: name each broker once")

    def hooks(output: Output, usual: str) -> Hooks:
        command_line = restart_with or usual
        if wait_for_me or not command_line:
            return PersonHooks(output.say, is_pool=bool(names))
        return CommandHooks(command_line, start_with, hook_s, output.say)

    try:
        urls = admin_urls(asked_url(url))
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    given = Given(
        urls=urls,
        wanted=Wanted(only=only, batch=batch, pool=names, refills=not no_refill),
        options=RollOptions(
            pace=Pace(at_once, per_minute, timeout_s, looks_back=False),
            room=room,
            back_s=_PERSON_S if wait_for_me else back_s,
            reports_s=reports_s,
            leaves_behind=leave_behind,
        ),
        hooks=hooks,
        journal=journal_file,
        why=why,
        service_url=service_url,
        statefulset=statefulset,
        canary=canary,
        acts=acts,
        despite_findings=despite_findings,
    )
    output = Output(is_json=form == "json")
    try:
        carry_out_roll(given, output, is_rollback=is_rollback, is_abort=is_abort)
    except (NotNowError, RefusedError, CollectError, JournalError, OSError) as error:
        fail(in_words(error) or "the brokers did not answer in time; try again")
