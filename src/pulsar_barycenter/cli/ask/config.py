"""`barycenter config`: shows the settings in force on all brokers and their sources, and changes dynamic settings."""

import asyncio
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, Final, TypeVar
from urllib.parse import quote

import click
import msgspec

from pulsar_barycenter.admin.errors import AdminRequestError
from pulsar_barycenter.cli.asking.client import URL_VARIABLE, asked_url, asking_client
from pulsar_barycenter.cli.asking.options import with_client_conf, with_why
from pulsar_barycenter.cli.failure import fail
from pulsar_barycenter.cli.formats import with_format
from pulsar_barycenter.cli.groups import CommandGroup
from pulsar_barycenter.config.broker_conf import ConfigError, keys, parse_value
from pulsar_barycenter.config.sources import Source
from pulsar_barycenter.doctor.picture import Picture
from pulsar_barycenter.doctor.reading.cluster import ClusterUnreadableError
from pulsar_barycenter.naming.counted import count_of
from pulsar_barycenter.observer.answers import without_report
from pulsar_barycenter.observer.collector import admin_urls
from pulsar_barycenter.questions.examination import Asked, examine
from pulsar_barycenter.status.effective_settings import Setting, settings_of
from pulsar_barycenter.terminal.suggestions import did_you_mean
from pulsar_barycenter.terminal.tables import Column, print_table, printable

_WIDTH: Final = 160
_IN_FORCE_S: Final = 30.0
_LOOKS_AGAIN_S: Final = 0.25

Command = TypeVar("Command", bound=Callable[..., Any])


def _with_url(command: Command) -> Command:
    command = with_client_conf(command)
    return click.option("--url", help=f"The web address of any broker.  [{URL_VARIABLE}; http://127.0.0.1:8080]")(
        command
    )


@click.group(name="config", cls=CommandGroup)
def command() -> None:
    """Show and change the configuration of a running cluster, Barycenter's or Apache Pulsar's."""


@command.command(name="get")
@click.argument("names", nargs=-1, metavar="[KEY]...")
@_with_url
@click.option("--all", "is_all", is_flag=True, help="Also show keys that have their default value.")
@with_format("table", "json", json="one object for each key")
def get(names: tuple[str, ...], url: str | None, is_all: bool, form: str) -> None:
    """Show the values in force, and the source of each: default, broker.conf or dynamic.

    For a dynamic setting it shows who changed it, when and why, if the brokers have a record of the change. Without
    KEY it shows all settings that differ from their defaults. Values that may be secret are hidden.

    Exit code: 0, or 1 if a KEY does not exist.
    """
    settings = _settings(url)
    known = [setting.key for setting in settings]
    for key in names:
        if key not in known:
            fail(f"no broker knows {key}{did_you_mean(key, known)}")
    wanted = [setting for setting in settings if setting.key in names]
    if not names:
        wanted = [setting for setting in settings if is_all or not setting.is_default]
    _print_settings(wanted, form, none="every setting has its default value")


@command.command(name="diff")
@_with_url
@click.option("--all", "is_all", is_flag=True, help="Also show keys that differ on each broker by design.")
@with_format("table", "json", json="one object for each key")
def diff(url: str | None, is_all: bool, form: str) -> None:
    """Show the settings in which brokers differ.

    Ports, addresses, folders, certificates and hardware differ by design; only --all shows them. Exit code: 0, also if
    there are differences.
    """
    different = [setting for setting in _settings(url) if not setting.is_alike]
    own = [] if is_all else [setting for setting in different if setting.is_own]
    _print_settings(
        [setting for setting in different if setting not in own], form, none="brokers do not differ in any setting"
    )
    if own and form != "json":
        names = ", ".join(setting.key for setting in own)
        click.echo(printable(f"not shown, as they differ by design: {names}; --all shows them"))


@command.command(name="set", context_settings={"ignore_unknown_options": True})  # a value may be -1
@click.argument("key")
@click.argument("value")
@_with_url
@click.option("--yes", is_flag=True, help="Make the change. Without --yes the command only shows it.")
@with_why("The reason; the brokers store it with the change.")
def set_(key: str, value: str, url: str | None, yes: bool, why: str) -> None:
    """Change a dynamic setting of all brokers, now and at their next starts; wait until all brokers use it.

    Without --yes a broker checks the value, and nothing changes.

    Exit code: 0; 1 if the value is refused or not in force on every broker.
    """
    if not value.strip():
        raise click.UsageError(f"{key} cannot have a blank value; `config unset {key}` removes the setting")
    now = _dynamic(key, _settings(url))
    _print_settings([now], "table")
    if list(now.values) == [value]:
        click.echo(f"nothing to do: {key} is {value} on all brokers already")
        return
    try:
        asyncio.run(_check(asked_url(url), key, value))
        if not yes:
            click.echo(printable(f"would become {value}; nothing is done without --yes"))
            return
        asyncio.run(_set(asked_url(url), key, value, why))
    except AdminRequestError as error:
        fail(error.reason if error.status == 412 and error.reason else without_report(error))
    except ConfigError as error:
        fail(str(error))
    deadline = time.monotonic() + _IN_FORCE_S
    while True:
        (now,) = [setting for setting in _settings(url) if setting.key == key]
        if list(now.values) == [value]:
            click.echo(printable(f"{key} is {value} on {count_of(len(now.values[value]), 'broker')}"))
            return
        if time.monotonic() > deadline:
            _print_settings([now], "table")
            fail(f"{key} is not {value} on all brokers after {_IN_FORCE_S:.0f} s; `barycenter doctor` shows why")
        time.sleep(_LOOKS_AGAIN_S)


@command.command(name="unset")
@click.argument("key")
@_with_url
@click.option("--yes", is_flag=True, help="Make the change. Without --yes the command only shows it.")
@with_why("The reason; the brokers store it with the change.")
def unset(key: str, url: str | None, yes: bool, why: str) -> None:
    """Remove a dynamic setting that `config set` made; wait until no broker has it.

    As in Apache Pulsar, a broker keeps the value until it restarts. Then it uses the value of its broker.conf, else the
    default. To change the value at once, use `config set` first.

    Exit code: 0; 1 if the setting cannot be removed.
    """
    picture = _picture(url)
    now = _dynamic(key, settings_of(picture))
    if not _is_set(picture, key):
        click.echo(printable(f"{key} is not a dynamic setting of this cluster: there is nothing to remove"))
        return
    _print_settings([now], "table")
    default = f", else the default {now.default}" if now.default is not None else ""
    then = f"brokers keep {' and '.join(now.values)} until they restart, and then use the value of their broker.conf"
    if not yes:
        click.echo(printable(f"would be removed: {then}{default}; nothing is done without --yes"))
        return
    try:
        asyncio.run(_remove(asked_url(url), key, why))
    except AdminRequestError as error:
        fail(error.reason if error.status == 412 and error.reason else without_report(error))
    deadline = time.monotonic() + _IN_FORCE_S
    while _is_set(_picture(url), key):
        if time.monotonic() > deadline:
            fail(f"after {_IN_FORCE_S:.0f} s some brokers still have the dynamic setting {key}; try again")
        time.sleep(_LOOKS_AGAIN_S)
    click.echo(printable(f"removed the dynamic setting {key}: {then}{default}"))


def _dynamic(key: str, settings: Sequence[Setting]) -> Setting:
    """Return the setting of `key`. End the program if no broker has this key, or the key cannot be changed while
    brokers run.
    """
    known = {setting.key: setting for setting in settings}
    dynamic = [setting.key for setting in settings if setting.is_dynamic]
    if key not in dynamic:
        why = "is read when a broker starts; set it in broker.conf" if key in known else "is not a key of any broker"
        fail(f"{key} {why}{did_you_mean(key, dynamic) if key not in known else ''}")
    return known[key]


def _is_set(picture: Picture, key: str) -> bool:
    return any(key in (broker.overrides or ()) for broker in picture.answering)


async def _check(url: str, key: str, value: str) -> None:
    """Ask a broker to check a value. For Apache Pulsar, which has no such request, check the value's type here.

    Raises:
        AdminRequestError: the broker would refuse the value, or no broker answers.
        ConfigError: the value does not have the key's type.
    """
    client = asking_client()
    try:
        await client.call("GET", url, f"/barycenter/v1/settings/{quote(key, safe='')}", params={"value": value})
    except AdminRequestError as error:
        if error.status != 404:
            raise
        if key in keys() and keys()[key].kind in (bool, int, float):
            parse_value(key, value)
    finally:
        await client.close()


async def _set(url: str, key: str, value: str, why: str) -> None:
    client = asking_client(why=why)
    try:
        await client.call("POST", url, f"/admin/v2/brokers/configuration/{quote(key, safe='')}/{quote(value, safe='')}")
    finally:
        await client.close()


async def _remove(url: str, key: str, why: str) -> None:
    client = asking_client(why=why)
    try:
        await client.call("DELETE", url, f"/admin/v2/brokers/configuration/{quote(key, safe='')}")
    finally:
        await client.close()


def _settings(url: str | None) -> list[Setting]:
    return settings_of(_picture(url))


def _picture(url: str | None) -> Picture:
    """Query all brokers and return their settings; end the program if no broker answers."""
    try:
        picture, _ = asyncio.run(examine(asking_client, Asked(admin_urls(asked_url(url))), ("settings-apart",)))
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    except ClusterUnreadableError as error:
        fail(f"cannot ask the cluster: {error}")
    if not any(broker.settings for broker in picture.answering):
        fail(
            "no broker returned its configuration; if the cluster checks tokens, put a superuser's token into"
            " BARYCENTER_TOKEN"
        )
    return picture


def _print_settings(settings: Sequence[Setting], form: str, *, none: str = "") -> None:
    if form == "json":
        for setting in settings:
            click.echo(msgspec.json.encode(setting))
        return
    if not settings:
        click.echo(none)
        return
    rows = []
    for setting in settings:
        for value, brokers in setting.values.items():
            where = "all brokers" if setting.is_alike else ", ".join(brokers)
            rows.append([setting.key, value, _source(setting, value), setting.default or "", where])
    print_table(
        [Column(title) for title in ("key", "value", "from", "default", "where")],
        [[printable(cell) for cell in row] for row in rows],
        plain_width=_WIDTH,
    )


def _source(setting: Setting, value: str) -> str:
    """Return a text that names the source of a setting's value; for a dynamic setting also the principal, the time and
    the reason of its last change.
    """
    source, changed = setting.sources[value], setting.changed
    if source is not Source.DYNAMIC or changed is None:
        return str(source)
    at = datetime.fromtimestamp(changed.at / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    return f"{source}, by {changed.by} at {at} UTC" + (f": {changed.why}" if changed.why else "")
