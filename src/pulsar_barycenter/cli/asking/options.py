"""The options by which a command says where a cluster is and who asks: those of `pulsar-admin`.

What was typed is kept with click's context, under the keys of client.conf, so that no command has to pass it on.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from pulsar_barycenter.admin.client_conf import USUAL_URL, ClientConf, configured

_TYPED: Final = "barycenter.client_conf"
_CONTEXT: Final = "context"
MOST_WHY: Final = 1_000
"""Characters of a reason."""

Command = TypeVar("Command", bound=Callable[..., Any])


def kept_as(key: str) -> Callable[[click.Context, click.Parameter, Any], Any]:
    """Return the callback of an option that stands for a key of client.conf."""

    def keep(context: click.Context, _parameter: click.Parameter, value: Any) -> Any:
        if value is not None:
            context.meta.setdefault(_TYPED, {})[key] = value
        return value

    return keep


def _option(name: str, key: str, help: str, **more: Any) -> Callable[[Command], Command]:  # noqa: A002
    return click.option(name, expose_value=False, callback=kept_as(key), help=help, **more)


_OPTIONS: Final[tuple[Callable[[Any], Any], ...]] = (
    _option("--context", _CONTEXT, "A configuration that pulsar-shell keeps by this name.", metavar="NAME"),
    _option(
        "--auth-plugin",
        "authPlugin",
        "How to prove who asks: token, oauth2, basic or tls, or Pulsar's class.",
        metavar="CLASS",
    ),
    _option("--auth-params", "authParams", "The token, user and password, or certificate.", metavar="TEXT"),
    _option("--tls-trust-cert-path", "tlsTrustCertsFilePath", "Certificates of authorities to trust.", metavar="FILE"),
    _option("--tls-allow-insecure", "tlsAllowInsecureConnection", "Trust any certificate.", is_flag=True, default=None),
    _option(
        "--tls-enable-hostname-verification",
        "tlsEnableHostnameVerification",
        "Demand that certificates are of the host that is asked, whatever the configuration says.",
        is_flag=True,
        default=None,
    ),
)


def with_why(text: str) -> Callable[[Command], Command]:
    """Give a command the option `why`; `text` says where the reason is kept."""
    return click.option("--why", default="", callback=_why, help=text)


def _why(_context: click.Context, _parameter: click.Parameter, text: str) -> str:
    if len(text) > MOST_WHY:
        raise click.BadParameter(f"give at most {MOST_WHY:,} characters")
    return text


def with_client_conf(command: Command) -> Command:
    """Give a command the options of who asks; `client_conf` heeds them."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def client_conf(
    context: click.Context | None = None, url: str | None = None, *, usual_url: str = USUAL_URL
) -> ClientConf:
    """Return what the options of the command that runs, a context or file, and variables come to.

    `url` is an address that was typed, `usual_url` what is asked where nothing says it.

    Raises:
        ClientConfError: it cannot be used.
    """
    context = context or click.get_current_context(silent=True)
    typed = dict(context.meta.get(_TYPED, {})) if context is not None else {}
    if url:
        typed["webServiceUrl"] = url
    return configured(typed, os.environ, Path.home(), typed.pop(_CONTEXT, None), usual_url=usual_url)
