"""The client by which commands ask brokers, and the address they ask."""

import math
from typing import Final
from urllib.parse import quote

import click

from pulsar_barycenter.admin.client import REQUEST_TIMEOUT_S, AdminClient
from pulsar_barycenter.admin.client_conf import ClientConf, ClientConfError
from pulsar_barycenter.cli.asking.options import client_conf

URL_VARIABLE: Final = "BARYCENTER_URL"
WHY: Final = "X-Barycenter-Why"
_USUAL_URL: Final = "http://127.0.0.1:8080"


def asking_client(*, timeout_s: float = REQUEST_TIMEOUT_S, most_bytes: float = math.inf, why: str = "") -> AdminClient:
    """Return a client of brokers, to be closed, that shows and trusts what is configured; they keep `why` beside what
    is changed by it.

    Raises:
        click.UsageError: what is configured cannot be used.
    """
    conf = asking_conf()
    return AdminClient(
        timeout_s=timeout_s, shows=conf.shows, tls=conf.tls, most_bytes=most_bytes, headers=why_headers(why)
    )


def why_headers(why: str) -> dict[str, str]:
    """Return the headers by which brokers hear why something is asked for, none if `why` is blank."""
    return {WHY: quote(why, safe=" ")} if why else {}  # a header holds no other characters than Latin-1


def asked_url(url: str | None) -> str:
    """Return the web address to ask: what was given, else what is configured, else that of this machine.

    One without a scheme is asked by HTTP.

    Raises:
        click.UsageError: what is configured cannot be used.
    """
    return asking_conf(url, usual_url=_USUAL_URL).web_service_url


def named_url(url: str | None) -> str | None:
    """Return the same, None where nothing names a cluster.

    Raises:
        click.UsageError: what is configured cannot be used.
    """
    return asking_conf(url, usual_url="").web_service_url or None


def asking_conf(url: str | None = None, *, usual_url: str = _USUAL_URL) -> ClientConf:
    """Return where the cluster is and as whom it is asked.

    Raises:
        click.UsageError: what is configured cannot be used.
    """
    try:
        return client_conf(url=url, usual_url=usual_url)
    except ClientConfError as error:
        raise click.UsageError(str(error)) from error
