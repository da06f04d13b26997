"""`barycenter balance`: balances a running cluster from outside."""

import asyncio
import sys
from pathlib import Path
from typing import Any, Final

import click

from pulsar_barycenter.balancer.facts import FactsError
from pulsar_barycenter.balancer.judging.deciding import checked_changes, checked_strategy
from pulsar_barycenter.balancer.options import (
    LEASE_TOPIC,
    MAX_AT_ONCE,
    MAX_PER_HOUR,
    MAX_PER_MINUTE,
    MAX_SPLITS_PER_HOUR,
    MORE_ERRORS,
    Caps,
    Mode,
    SplitWhen,
    Wanted,
)
from pulsar_barycenter.balancer.right_to_act import BalanceError
from pulsar_barycenter.balancer.running import balance
from pulsar_barycenter.balancer.state_folder import StateError
from pulsar_barycenter.cli.asking.client import URL_VARIABLE, asking_client, asking_conf, named_url, why_headers
from pulsar_barycenter.cli.asking.options import with_client_conf
from pulsar_barycenter.cli.balance.approve import command as approve
from pulsar_barycenter.cli.balance.lines import printer
from pulsar_barycenter.cli.balance.restore import command as restore
from pulsar_barycenter.cli.failure import fail
from pulsar_barycenter.cli.folders import keep_private
from pulsar_barycenter.cli.formats import with_format
from pulsar_barycenter.cli.moments import Seconds
from pulsar_barycenter.cli.numbers import Number
from pulsar_barycenter.config.broker_conf import ConfigError
from pulsar_barycenter.load.managers import StrategyError
from pulsar_barycenter.load.sizing import SizingRule
from pulsar_barycenter.observer.collector import CollectError, admin_urls
from pulsar_barycenter.operations.journal_file import JournalError
from pulsar_barycenter.run.process_log import configure_logging
from pulsar_barycenter.snapshots.decided_by import WrongWordError
from pulsar_barycenter.terminal.errors import in_words

_MIB: Final = 1 << 20


@click.group(name="balance", invoke_without_command=True)
@click.option(
    "--url",
    "--admin-url",
    "url",
    metavar="URL",
    help=f"Web address of a broker or a proxy; several brokers: http://broker-1:8080,broker-2:8080.  [{URL_VARIABLE}]",
)
@click.option("--state", type=click.Path(file_okay=False, path_type=Path), help="Folder for the state; one a cluster.")
@click.option(
    "--mode",
    type=click.Choice([mode.value for mode in Mode]),
    default=Mode.OBSERVE.value,
    show_default=True,
    help="observe: change nothing; advise: wait for the approval of each round; act: carry out.",
)
@click.option("--strategy", default="LeastDisturbance", show_default=True, help="The shedding strategy that decides.")
@click.option("--set", "changes", multiple=True, metavar="KEY=VALUE", help="Decide with this setting; repeatable.")
@click.option("--interval", default="60s", show_default=True, type=Seconds(1), help="Time between rounds: 60s, 5m.")
@click.option("--rounds", default=0, type=click.IntRange(0), help="The number of rounds; 0: until Ctrl-C.")
@click.option("--service-url", default="", help="pulsar:// address; needed with the extensible load manager.")
@click.option("--keep-days", default=7.0, show_default=True, type=Number(0.1), help="Keep reports for this.")
@click.option("--at-once", default=1, show_default=True, type=click.IntRange(1, MAX_AT_ONCE), help="Moves at a time.")
@click.option(
    "--per-minute",
    default=6.0,
    show_default=True,
    type=Number(0.1, MAX_PER_MINUTE),
    help="The maximum number of moves that begin within a minute.",
)
@click.option(
    "--per-hour",
    default=60,
    show_default=True,
    type=click.IntRange(1, MAX_PER_HOUR),
    help="The maximum number of moves that begin within an hour.",
)
@click.option(
    "--throughput-per-hour",
    default=0.0,
    type=Number(0),
    help="The maximum throughput of the bundles that move within an hour, MiB/s, in + out; 0: no limit.",
)
@click.option(
    "--split",
    type=click.Choice([when.value for when in SplitWhen]),
    default=SplitWhen.AUTO.value,
    show_default=True,
    help="Split bundles that are too large; auto: if the cluster does so on its own.",
)
@click.option(
    "--splits-per-hour",
    default=6,
    show_default=True,
    type=click.IntRange(1, MAX_SPLITS_PER_HOUR),
    help="The maximum number of splits that begin within an hour.",
)
@click.option("--grace", default="30m", show_default=True, type=Seconds(0), help="A bundle that moved stays for this.")
@click.option(
    "--min-brokers",
    default=2,
    show_default=True,
    type=click.IntRange(2, 10_000),
    help="Move nothing while fewer brokers have a current report.",
)
@click.option("--timeout", default="60s", show_default=True, type=Seconds(1), help="The time limit of one move.")
@click.option(
    "--worse-by",
    default=5.0,
    show_default=True,
    type=Number(0.1, 100),
    help="Pause if the usage above the mean grows by more points after moves.",
)
@click.option(
    "--errors-by",
    default=MORE_ERRORS,
    show_default=True,
    type=Number(0, 1e9),
    help="Pause if clients get more errors a minute than this beyond those before moves.",
)
@click.option("--quiet", default="5m", show_default=True, type=Seconds(0), help="Pause for this after a foreign move.")
@click.option("--hand-back", default="15m", show_default=True, type=Seconds(1), help="Hand back after this pause.")
@click.option("--approve-within", default="1h", show_default=True, type=Seconds(1), help="A round is valid for this.")
@click.option("--lease-topic", default=LEASE_TOPIC, show_default=True, help="The topic that holds the lease.")
@click.option(
    "--metrics-port", default=0, type=click.IntRange(0, 65535), help="Serve metrics and a page on 127.0.0.1; 0: do not."
)
@click.option(
    "--head-room",
    default=30,
    show_default=True,
    type=click.IntRange(0, 90),
    help="Percent of a broker to keep free in the metric of brokers that are needed.",
)
@click.option("--idle", default=0, show_default=True, type=click.IntRange(0, 90), help="Percent an idle broker uses.")
@click.option("--spare", default=0, show_default=True, type=click.IntRange(0, 1_000), help="Brokers beyond the need.")
@with_client_conf
@with_format("table", "json", json="one object for each round")
@click.pass_context
def command(context: click.Context, /, **options: Any) -> None:
    """Balance a running cluster from outside, Apache Pulsar or Barycenter.

    In each round the load of all brokers is read, and a leader's round decides with the chosen strategy. `observe`, the
    default, prints what it would move beside what the cluster moved, and keeps the score of both. `advise` waits until
    `barycenter balance approve` allows a round. `act` switches the cluster's own shedding and splitting off, moves and
    splits bundles within the limits, and puts back what was there at its end; docs/balance.md says when it pauses.

    A second process for the same cluster waits as a standby. A superuser's rights are needed, and for advise and act
    the right to produce to and consume from the lease topic.

    Exit code: 0 after an orderly end; 1 if the cluster cannot be read, the lease was lost, or the cluster's own
    shedding could not be put back; 2 for wrong usage.
    """
    if context.invoked_subcommand is None:
        _run(**options)


command.add_command(approve)
command.add_command(restore)


def _run(*, url: str | None, state: Path | None, form: str, **options: Any) -> None:
    named = named_url(url)
    if named is None:
        raise click.UsageError(f"Missing option '--url' / '--admin-url' (or the variable {URL_VARIABLE})")
    if state is None:
        raise click.UsageError("Missing option '--state'")
    try:
        wanted = _wanted(admin_urls(named), state, options)
    except (ValueError, ConfigError, StrategyError, WrongWordError) as error:
        raise click.UsageError(str(error)) from error
    keep_private()
    configure_logging(as_json=not sys.stderr.isatty())
    try:
        printed = printer(as_json=form == "json")
        asyncio.run(balance(asking_client, asking_conf(), wanted, printed, why_headers))
    except (BalanceError, CollectError, FactsError, StateError, JournalError, OSError) as error:
        fail(in_words(error))


def _wanted(urls: tuple[str, ...], state: Path, options: dict[str, Any]) -> Wanted:
    """Return the options of the command as checked values.

    Raises:
        ValueError, ConfigError, StrategyError, WrongWordError: a value cannot be used.
    """
    strategy = checked_strategy(options["strategy"])
    when, mode = SplitWhen(options["split"]), Mode(options["mode"])
    if when is SplitWhen.ALWAYS and mode is Mode.ADVISE:
        raise WrongWordError(
            "--split always cannot be used with --mode advise, in which only moves can be approved; use --mode act"
        )
    checked_changes(strategy, options["changes"])
    return Wanted(
        urls=urls,
        state=state,
        mode=mode,
        strategy=strategy,
        changes=options["changes"],
        interval_s=options["interval"],
        rounds=options["rounds"],
        service_url=options["service_url"],
        keep_days=options["keep_days"],
        caps=Caps(
            at_once=options["at_once"],
            per_minute=options["per_minute"],
            per_hour=options["per_hour"],
            throughput_per_hour=options["throughput_per_hour"] * _MIB,
            grace_ms=round(options["grace"] * 1000),
            min_brokers=options["min_brokers"],
            splits_per_hour=options["splits_per_hour"],
            timeout_s=options["timeout"],
        ),
        split=when,
        sizing=SizingRule(head_room=options["head_room"] / 100, idle=options["idle"] / 100, spare=options["spare"]),
        grown=options["worse_by"] / 100,
        more_errors=options["errors_by"],
        quiet_s=options["quiet"],
        hand_back_s=options["hand_back"],
        approved_within_s=options["approve_within"],
        lease_topic=options["lease_topic"],
        metrics_port=options["metrics_port"],
    )
