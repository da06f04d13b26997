"""Creates the HTTP client with which commands query brokers, and finds the address to query."""

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
    """Return an HTTP client for brokers with the configured credentials and trusted authorities; the caller closes it.

    Brokers store `why` with each change that this client makes.

    Raises:
        click.UsageError: the configuration cannot be used.
    """
    conf = asking_conf()
    return AdminClient(
        timeout_s=timeout_s, shows=conf.shows, tls=conf.tls, most_bytes=most_bytes, headers=why_headers(why)
    )


def why_headers(why: str) -> dict[str, str]:
    """Return the headers of a request that give brokers the reason of the request; empty if `why` is blank."""
    return {WHY: quote(why, safe=" ")} if why else {}  # a header can only have characters of Latin-1


def asked_url(url: str | None) -> str:
    """Return the web address to query: the given one, else the configured one, else this machine's.

    An address without a scheme means HTTP.

    Raises:
        click.UsageError: the configuration cannot be used.
    """
    return asking_conf(url, usual_url=_USUAL_URL).web_service_url


def named_url(url: str | None) -> str | None:
    """Return the web address `url`; if it is None, the configured address; None if none is configured.

    Raises:
        click.UsageError: the configuration cannot be used.
    """
    return asking_conf(url, usual_url="").web_service_url or None


def asking_conf(url: str | None = None, *, usual_url: str = _USUAL_URL) -> ClientConf:
    """Return the configured address of the cluster and the credentials; `url` overrides the address.

    Raises:
        click.UsageError: the configuration cannot be used.
    """
    try:
        return client_conf(url=url, usual_url=usual_url)
    except ClientConfError as error:
        raise click.UsageError(str(error)) from error
