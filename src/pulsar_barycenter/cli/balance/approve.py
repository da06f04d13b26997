"""`barycenter balance approve`: shows the round that waits for a person, and approves or rejects it."""

import getpass
import time
from pathlib import Path

import click

from pulsar_barycenter.balancer.approval import Answer, ApprovalError, answer, waiting
from pulsar_barycenter.balancer.state_folder import StateError
from pulsar_barycenter.cli.asking.options import with_why
from pulsar_barycenter.cli.failure import fail
from pulsar_barycenter.cli.operate.carrying_out import print_moves
from pulsar_barycenter.naming.counted import count_of
from pulsar_barycenter.terminal.errors import in_words


@click.command(name="approve")
@click.option(
    "--state",
    required=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="The folder of the balancer's state.",
)
@click.option("--yes", is_flag=True, help="Approve the round. Without --yes the command only shows it.")
@click.option("--reject", is_flag=True, help="Reject the round; the next one is decided anew.")
@click.option("--round", "name", help="Answer only if this round waits.")
@with_why("The reason; the journal stores it.")
def command(state: Path, yes: bool, reject: bool, name: str | None, why: str) -> None:
    """Show the round that waits for approval, and approve it with --yes.

    The answer counts for exactly the moves that are shown: it names their hash. The balancer checks each move again
    before it begins.

    Exit code: 0; 1 if no round waits; 2 for wrong usage.
    """
    if yes and reject:
        raise click.UsageError("give --yes or --reject, not both")
    now_ms = time.time_ns() // 1_000_000
    try:
        proposal = waiting(state, now_ms)
        if name is not None and name != proposal.name:
            raise ApprovalError(
                f"round {proposal.name} waits for approval, not round {name}, so nothing was approved; look at the"
                " waiting round, and give its name"
            )
        click.echo(f"round {proposal.name} waits for approval: {count_of(len(proposal.moves), 'move')}; {proposal.why}")
        print_moves(proposal.moves)
        if not (yes or reject):
            click.echo("nothing is done without --yes")
            return
        answer(state, Answer(proposal=proposal.name, is_approved=yes, by=getpass.getuser(), at=now_ms, why=why))
    except (ApprovalError, StateError, OSError) as error:
        fail(in_words(error))
        return
    click.echo("approved; the balancer carries it out now" if yes else "rejected")
