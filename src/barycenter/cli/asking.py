"""The client by which commands ask brokers: it shows the token that the environment names."""

import math
import os
from collections.abc import Mapping

import click

from barycenter.admin.client import REQUEST_TIMEOUT_S, AdminClient
from barycenter.attach.answers import TOKEN_VARIABLE
from barycenter.credentials.errors import KeyMaterialError
from barycenter.credentials.presented import NOTHING, Presented, presented_text


def asking_client(*, timeout_s: float = REQUEST_TIMEOUT_S, most_bytes: float = math.inf) -> AdminClient:
    """Return a client of brokers, to be closed.

    Raises:
        click.UsageError: what BARYCENTER_TOKEN names is no token.
    """
    try:
        return AdminClient(timeout_s=timeout_s, shows=shown_by(os.environ), most_bytes=most_bytes)
    except KeyMaterialError as error:
        raise click.UsageError(str(error)) from error


def shown_by(environment: Mapping[str, str]) -> Presented:
    """Return what BARYCENTER_TOKEN says: a token, `file:///path` to one, the parameters of an issuer's, or nothing.

    Raises:
        KeyMaterialError: it is no token, or its file cannot be read.
    """
    text = environment.get(TOKEN_VARIABLE, "").strip()
    return presented_text(text, TOKEN_VARIABLE) if text else NOTHING
