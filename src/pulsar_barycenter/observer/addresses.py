"""Where a broker's web service is reached, from its id."""

from typing import Final

from pulsar_barycenter.admin.client import AdminClient
from pulsar_barycenter.admin.errors import AdminRequestError

_OWN_TOPIC: Final = "/lookup/v2/topic/persistent/pulsar/{broker}/healthcheck"


async def address_of(client: AdminClient, broker: str, told_by: str) -> str:
    """Return the web address of a broker, with TLS if `told_by`, the address that named it, has that.

    Its id has the port without TLS, if it has one. The other is told by a lookup of the topic of its own that a broker
    always serves.
    """
    if not told_by.startswith("https:"):
        return f"http://{broker}"
    try:
        found = await client.call("GET", told_by, _OWN_TOPIC.format(broker=broker))
    except AdminRequestError:
        found = None
    address = found.get("httpUrlTls") if isinstance(found, dict) else None
    return str(address or f"https://{broker}").rstrip("/")
