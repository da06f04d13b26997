"""`barycenter undrain`: a drained broker gets bundles again."""

import asyncio

import click

from pulsar_barycenter.cli.asking.client import URL_VARIABLE, asked_url
from pulsar_barycenter.cli.asking.options import with_client_conf, with_why
from pulsar_barycenter.cli.failure import fail, in_words
from pulsar_barycenter.cli.operate.carrying_out import asked_by
from pulsar_barycenter.cli.operate.drain import UNREACHABLE
from pulsar_barycenter.cli.operate.drained import set_drained, who_is_drained
from pulsar_barycenter.cli.suggestions import did_you_mean
from pulsar_barycenter.cli.terminal import printable


@click.command(name="undrain")
@click.argument("broker", metavar="HOST:PORT")
@click.option("--url", help=f"The web address of any broker.  [{URL_VARIABLE}; http://127.0.0.1:8080]")
@click.option("--yes", is_flag=True, help="Do it; without, it is shown what would be done.")
@with_why("A reason, which the brokers keep.")
@with_client_conf
def command(broker: str, url: str | None, yes: bool, why: str) -> None:
    """Let a drained broker have bundles again; look-ups and the load manager's next rounds bring them.

    Ends with 0, with 1 if it is not drained or cannot be told, with 2 for wrong usage.
    """
    address = asked_url(url)
    try:
        found = asyncio.run(who_is_drained(address))
        if found.drained is None:
            fail(
                "Apache Pulsar has no setting that keeps a broker empty: its load manager places bundles there, unless "
                "an isolation policy that was set for the drain has to be deleted first"
            )
            return
        if broker not in found.drained:
            fail(f"{broker} is not drained{did_you_mean(broker, found.drained)}")
        click.echo(printable(f"drained: {', '.join(found.drained)}"))
        if not yes:
            click.echo("nothing is done without --yes")
            return
        asyncio.run(set_drained(address, broker, is_drained=False, why=asked_by("undrain", why)))
    except UNREACHABLE as error:
        fail(in_words(error) or f"not all brokers know after a while that {broker} is not drained any more; try again")
    click.echo(printable(f"{broker} may have bundles again"))
