"""Clients with given roles, by tokens; and the settings of a broker that checks the permissions of each role."""

from typing import Any, Final
from urllib.parse import urlsplit

from pulsar_barycenter.broker.broker import Broker
from support.proofs import asking, by_token, token
from support.wire_client import WireClient

ROOT: Final = "root"

ASKED: Final[dict[str, Any]] = asking(
    authorization_enabled=True, super_user_roles=(ROOT, "broker"), proxy_roles=("proxy",)
)
"""Settings of a broker that asks who clients are, and what they may."""


def as_role(role: str) -> dict[str, str]:
    """Return the headers of a request of `role`, or of `proxy role/original role`; no credentials if it is empty."""
    own, _, original = role.partition("/")
    shown = {"Authorization": f"Bearer {token(own)}"} if own else {}
    return {**shown, "X-Original-Principal": original} if original else shown


async def connect_as(port: int, role: str) -> WireClient:
    """Return a connected client with that role, see `as_role`; an empty role presents no credentials."""
    own, _, original = role.partition("/")
    if not own:
        return await WireClient.connect(port)
    shown = by_token(own)
    if original:
        shown["original_principal"] = original
    return await WireClient.connect(port, **shown)


def port_of(broker: Broker) -> int:
    """Return the port of a broker's binary protocol."""
    port = urlsplit(broker.urls.broker_url or "").port
    assert port is not None
    return port
