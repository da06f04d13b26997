"""`barycenter admin`: builds click commands from the rows of `admin.commands.table`."""

import asyncio
import sys
from collections.abc import Sequence
from typing import Any, Final

import click

from pulsar_barycenter.admin.client_conf import ClientConf, ClientConfError
from pulsar_barycenter.admin.commands.bookies import BOOKIES
from pulsar_barycenter.admin.commands.brokers import BROKER_STATS, BROKERS
from pulsar_barycenter.admin.commands.clusters import CLUSTERS, TENANTS
from pulsar_barycenter.admin.commands.namespaces import NAMESPACES
from pulsar_barycenter.admin.commands.output import compact, lines_of
from pulsar_barycenter.admin.commands.policies import ISOLATION, QUOTAS
from pulsar_barycenter.admin.commands.resource_groups import RESOURCE_GROUPS
from pulsar_barycenter.admin.commands.schemas import SCHEMAS
from pulsar_barycenter.admin.commands.session import ClusterSession
from pulsar_barycenter.admin.commands.table import (
    Argument,
    Command,
    Flag,
    Kind,
    NotDoneError,
    Resource,
    Values,
    WrongUsageError,
)
from pulsar_barycenter.admin.commands.topic_policies import TOPIC_POLICIES
from pulsar_barycenter.admin.commands.topics import TOPICS
from pulsar_barycenter.admin.errors import AdminRequestError
from pulsar_barycenter.cli.admin.completion import offers
from pulsar_barycenter.cli.asking.options import client_conf, kept_as, with_client_conf
from pulsar_barycenter.cli.failure import fail
from pulsar_barycenter.cli.formats import with_format
from pulsar_barycenter.cli.groups import CommandGroup
from pulsar_barycenter.cli.numbers import Number
from pulsar_barycenter.naming.errors import InvalidNameError
from pulsar_barycenter.naming.namespace import NamespaceName
from pulsar_barycenter.naming.topic import TopicName
from pulsar_barycenter.observer.answers import without_report
from pulsar_barycenter.terminal.tables import printable

RESOURCES: Final = (
    CLUSTERS,
    TENANTS,
    NAMESPACES,
    TOPICS,
    TOPIC_POLICIES,
    SCHEMAS,
    BROKERS,
    BROKER_STATS,
    ISOLATION,
    QUOTAS,
    RESOURCE_GROUPS,
    BOOKIES,
)


def _of(resource: Resource) -> click.Group:
    group = CommandGroup(resource.name, help=resource.help, short_help=resource.help)
    for row in resource.commands:
        group.add_command(_click_command(row, row.name))
        for alias in row.aliases:
            hidden = _click_command(row, alias)
            hidden.hidden = True
            group.add_command(hidden)
    return group


def _click_command(row: Command, name: str) -> click.Command:
    def callback(form: str, **values: Any) -> None:
        _run(row, values, form)

    params = [*map(_click_argument, row.arguments), *map(_click_option, row.flags)]
    made = click.Command(name, callback=callback, params=params, help=row.help)
    return with_format("pulsar", "json", json="the answer on one line")(made)


def _click_argument(argument: Argument) -> click.Argument:
    return click.Argument(
        [argument.name],
        required=argument.required,
        callback=_CHECKS.get(argument.name),
        shell_complete=offers(argument.name, client_conf),
    )


def _click_option(flag: Flag) -> click.Option:
    kind: click.ParamType[Any] = click.STRING
    if flag.choices:
        kind = click.Choice(flag.choices)
    elif flag.kind is Kind.NUMBER:
        kind = click.INT
    is_switch = flag.kind is Kind.SWITCH
    # do not pass default=None or is_flag=False: for click, the first makes a required option optional, and the second
    # allows an option without its value
    default: dict[str, Any] = {} if flag.default is None else {"default": flag.default}
    return click.Option(
        [flag.key, *flag.spellings.split()],
        help=flag.help,
        type=click.BOOL if is_switch else kind,
        is_flag=is_switch or None,
        required=flag.required,
        multiple=flag.kind in _OF_SEVERAL,
        show_default=flag.default is not None,
        callback=_OF_SEVERAL.get(flag.kind),
        shell_complete=None if is_switch or flag.choices else offers(flag.key, client_conf),
        **default,
    )


def _names(_context: click.Context, _parameter: click.Parameter, texts: tuple[str, ...]) -> list[str] | None:
    """Return the names that the user gave with an option, which may be repeated; None if the user did not give the
    option.
    """
    if not texts:
        return None
    return [name for text in texts for name in (piece.strip() for piece in text.split(",")) if name]


def _pairs(context: click.Context, parameter: click.Parameter, texts: tuple[str, ...]) -> dict[str, str] | None:
    """Return the key=value pairs that the user gave with an option, which may be repeated; None if the user did not
    give the option.
    """
    pairs = _names(context, parameter, texts)
    if pairs is None:
        return None
    found: dict[str, str] = {}
    for pair in pairs:
        if "=" not in pair:
            raise click.BadParameter(f"{pair!r}: give key=value, separated by commas or as several options")
        key, value = (piece.strip() for piece in pair.split("=", 1))
        if found.setdefault(key, value) != value:
            raise click.BadParameter(f"{key!r} has two values, {found[key]!r} and {value!r}: give one value")
    return found


def _namespace(_context: click.Context, _parameter: click.Parameter, text: str) -> str:
    try:
        return str(NamespaceName.parse(text))
    except InvalidNameError as error:
        raise click.BadParameter(str(error)) from error


def _topic(_context: click.Context, _parameter: click.Parameter, text: str) -> TopicName:
    try:
        return TopicName.parse(text)
    except InvalidNameError as error:
        raise click.BadParameter(str(error)) from error


_CHECKS: Final[dict[str, Any]] = {"namespace": _namespace, "topic": _topic}
_OF_SEVERAL: Final[dict[Kind, Any]] = {Kind.NAMES: _names, Kind.PAIRS: _pairs}
"""The parser for each kind of repeatable option."""


def _run(row: Command, typed: Values, form: str) -> None:
    """Run a command and print the answer. End the program with exit code 1 if the cluster refuses the command or does
    not answer.
    """
    values = dict(typed)
    if isinstance(topic := values.get("topic"), TopicName):
        values |= {"topic": topic.lookup_name, "name": str(topic)}
    context = click.get_current_context()
    try:
        answer = asyncio.run(_answer(row, values, client_conf(context), context.find_object(float) or 0.0))
    except WrongUsageError as error:
        raise click.UsageError(str(error)) from error
    except AdminRequestError as error:
        click.echo(_shown(error.reason if error.status and error.reason else without_report(error)), err=True)
        sys.exit(1)
    except (ClientConfError, NotDoneError) as error:
        fail(str(error))
        return
    if form == "json":
        if answer is not None:
            click.echo(_shown(compact(answer)))
        return
    for line in lines_of(answer, row.form):
        click.echo(_shown(line))


async def _answer(row: Command, values: Values, conf: ClientConf, timeout_s: float) -> Any:
    async with ClusterSession(conf, timeout_s) as session:
        return await row.work(session, values)


def _shown(text: str) -> str:
    return "\n".join(map(printable, text.split("\n")))


@click.group(name="admin", cls=CommandGroup)
@click.option(
    "--admin-url",
    "--url",
    metavar="URL",
    expose_value=False,
    callback=kept_as("webServiceUrl"),
    help="The web address of any broker.  [webServiceUrl of the configuration]",
)
@with_client_conf
@click.option(
    "--request-timeout",
    default=60.0,
    show_default=True,
    type=Number(0.1, 3600),
    help="Seconds to wait for an answer.",
)
def command(request_timeout: float) -> None:
    """Administer a cluster of Barycenter or Apache Pulsar, with the commands, flags and output of pulsar-admin.

    Address and credentials come from the options, else from --context, the client.conf that PULSAR_CLIENT_CONF names,
    or BARYCENTER_URL and BARYCENTER_TOKEN.

    Exit code: 0; 1 if the cluster refuses or does not answer; 2 for wrong usage.
    """
    click.get_current_context().obj = request_timeout


def _add(resources: Sequence[Resource]) -> None:
    for resource in resources:
        command.add_command(_of(resource))


_add(RESOURCES)
