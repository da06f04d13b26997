"""Finds the web address of a broker from its broker id."""

from typing import Final

from pulsar_barycenter.admin.client import AdminClient
from pulsar_barycenter.admin.errors import AdminRequestError

_OWN_TOPIC: Final = "/lookup/v2/topic/persistent/pulsar/{broker}/healthcheck"


async def address_of(client: AdminClient, broker: str, source: str) -> str:
    """Return the web address of the broker with the id `broker` (HOST:PORT). `source` is the address of the broker that
    returned the id: if it has the scheme `https`, the returned address has it, too.

    The port in a broker id is the port without TLS, if the broker has such a port. The port with TLS comes from a
    look-up of the broker's own health-check topic, which a broker always serves; if that fails, the port of the id is
    used.
    """
    if not source.startswith("https:"):
        return f"http://{broker}"
    try:
        found = await client.call("GET", source, _OWN_TOPIC.format(broker=broker))
    except AdminRequestError:
        found = None
    address = found.get("httpUrlTls") if isinstance(found, dict) else None
    return str(address or f"https://{broker}").rstrip("/")
