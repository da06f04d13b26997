"""The client by which commands ask brokers: it shows the token that the environment names."""

import math
import os
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar
from urllib.parse import quote

import click

from barycenter.admin.client import REQUEST_TIMEOUT_S, AdminClient
from barycenter.attach.answers import TOKEN_VARIABLE
from barycenter.credentials.errors import KeyMaterialError
from barycenter.credentials.presented import NOTHING, Presented, presented_text

WHY: Final = "X-Barycenter-Why"
MOST_WHY: Final = 1_000

Command = TypeVar("Command", bound=Callable[..., Any])


def with_why(text: str) -> Callable[[Command], Command]:
    """Give a command the option `why`; `text` says where the reason is kept."""
    return click.option("--why", default="", callback=_why, help=text)


def _why(_context: click.Context, _parameter: click.Parameter, text: str) -> str:
    if len(text) > MOST_WHY:
        raise click.BadParameter(f"give at most {MOST_WHY:,} characters")
    return text


def asking_client(*, timeout_s: float = REQUEST_TIMEOUT_S, most_bytes: float = math.inf, why: str = "") -> AdminClient:
    """Return a client of brokers, to be closed; they keep `why` beside what is changed by it.

    Raises:
        click.UsageError: what BARYCENTER_TOKEN names is no token.
    """
    headers = {WHY: quote(why, safe=" ")} if why else {}  # a header holds no other characters than Latin-1
    try:
        return AdminClient(timeout_s=timeout_s, shows=shown_by(os.environ), most_bytes=most_bytes, headers=headers)
    except KeyMaterialError as error:
        raise click.UsageError(str(error)) from error


def shown_by(environment: Mapping[str, str]) -> Presented:
    """Return what BARYCENTER_TOKEN says: a token, `file:///path` to one, the parameters of an issuer's, or nothing.

    Raises:
        KeyMaterialError: it is no token, or its file cannot be read.
    """
    text = environment.get(TOKEN_VARIABLE, "").strip()
    return presented_text(text, TOKEN_VARIABLE) if text else NOTHING
