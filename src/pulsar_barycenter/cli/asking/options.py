"""The options for the address of a cluster and for credentials, with the names of `pulsar-admin`.

The values are kept in click's context, under the keys of client.conf, so that commands need not pass them on.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from pulsar_barycenter.admin.client_conf import USUAL_URL, ClientConf, configured

_TYPED: Final = "barycenter.client_conf"
_CONTEXT: Final = "context"
MAX_WHY: Final = 1_000
"""The maximum length of a reason, in characters."""

Command = TypeVar("Command", bound=Callable[..., Any])


def kept_as(key: str) -> Callable[[click.Context, click.Parameter, Any], Any]:
    """Return the click callback of an option whose value replaces the value of `key` in client.conf."""

    def keep(context: click.Context, _parameter: click.Parameter, value: Any) -> Any:
        if value is not None:
            context.meta.setdefault(_TYPED, {})[key] = value
        return value

    return keep


def _option(name: str, key: str, help: str, **more: Any) -> Callable[[Command], Command]:  # noqa: A002
    return click.option(name, expose_value=False, callback=kept_as(key), help=help, **more)


_OPTIONS: Final[tuple[Callable[[Any], Any], ...]] = (
    _option("--context", _CONTEXT, "Use the configuration of pulsar-shell with this name.", metavar="NAME"),
    _option(
        "--auth-plugin",
        "authPlugin",
        "Authentication: token, oauth2, basic or tls, or the class name of Pulsar's plugin.",
        metavar="CLASS",
    ),
    _option("--auth-params", "authParams", "The token, user and password, or certificate.", metavar="TEXT"),
    _option("--tls-trust-cert-path", "tlsTrustCertsFilePath", "Certificates of authorities to trust.", metavar="FILE"),
    _option("--tls-allow-insecure", "tlsAllowInsecureConnection", "Trust any certificate.", is_flag=True, default=None),
    _option(
        "--tls-enable-hostname-verification",
        "tlsEnableHostnameVerification",
        "Require that a certificate names the host, also if the configuration does not.",
        is_flag=True,
        default=None,
    ),
)


def with_why(text: str) -> Callable[[Command], Command]:
    """Add the option `--why` to a command; `text` says where the reason is stored."""
    return click.option("--why", default="", callback=_why, help=text)


def _why(_context: click.Context, _parameter: click.Parameter, text: str) -> str:
    if len(text) > MAX_WHY:
        raise click.BadParameter(f"give at most {MAX_WHY:,} characters")
    return text


def with_client_conf(command: Command) -> Command:
    """Add the options for credentials to a command; `client_conf` applies them."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def client_conf(
    context: click.Context | None = None, url: str | None = None, *, usual_url: str = USUAL_URL
) -> ClientConf:
    """Return the configuration (address and credentials) for requests to brokers. For each key, the first source that
    has a value counts.

    The sources are, in this order: the options of the running command; the context of pulsar-shell that --context
    names, or without --context client.conf; the environment. `context` is the running command's context in click. `url`
    is the address in the command line, `usual_url` the address if no source has one.

    Raises:
        ClientConfError: the result cannot be used.
    """
    context = context or click.get_current_context(silent=True)
    typed = dict(context.meta.get(_TYPED, {})) if context is not None else {}
    if url:
        typed["webServiceUrl"] = url
    return configured(typed, os.environ, Path.home(), typed.pop(_CONTEXT, None), usual_url=usual_url)
