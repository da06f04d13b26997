"""Reads the address at which a bookie listens from the bookie's key below `available`.

Source: `org.apache.bookkeeper.discover.BookieServiceInfo`.
"""

import json
from typing import NamedTuple

from google.protobuf.message import DecodeError

from pulsar_barycenter.bookkeeper.errors import LedgerMetadataError
from pulsar_barycenter.bookkeeper.metadata.ledger_formats_pb2 import BookieServiceInfoFormat


class Address(NamedTuple):
    host: str
    port: int


def bookie_address(bookie: str, value: bytes) -> Address:
    """Return where the bookie with this id listens for requests.

    Raises:
        LedgerMetadataError: the value cannot be read, or has no address and the id is not `host:port`.
    """
    try:
        endpoints = BookieServiceInfoFormat.FromString(value).endpoints
    except DecodeError as error:
        raise LedgerMetadataError(f"bookie {bookie}: its registration cannot be read: {error}") from error
    for endpoint in endpoints:
        if endpoint.id == "bookie" or endpoint.protocol == "bookie-rpc":
            return Address(endpoint.host, endpoint.port)
    host, _, port = bookie.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65_536:
        raise LedgerMetadataError(
            f"bookie {bookie}: its registration has no endpoint of bookie-rpc, and its id is not host:port"
        )
    return Address(host, int(port))


def parse_racks(value: bytes) -> dict[str, str]:
    """Return the racks of bookies by bookie id, from the value of Pulsar's key `/bookies`. An empty value or `{}` has
    none.

    Raises:
        LedgerMetadataError: the value cannot be read.
    """
    try:
        groups = json.loads(value or b"{}")
        return {
            bookie: str(info["rack"])
            for group in groups.values()
            for bookie, info in group.items()
            if info.get("rack") is not None
        }
    except (ValueError, AttributeError, KeyError, TypeError) as error:
        raise LedgerMetadataError(
            f"the value of the key /bookies is not JSON of groups of bookies with racks: {error}; correct it with "
            "`pulsar-admin bookies set-bookie-rack`"
        ) from error
