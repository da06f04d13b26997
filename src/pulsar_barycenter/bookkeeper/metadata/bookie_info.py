"""Where a bookie listens, from its key below `available`.

Source: `org.apache.bookkeeper.discover.BookieServiceInfo`.
"""

import json
from collections.abc import Mapping
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
        LedgerMetadataError: the value cannot be read, or says nothing and the id is not `host:port`.
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


class Racks(NamedTuple):
    """Where bookies stand, by their ids: their racks, and their groups. A bookie without one is in none of them."""

    racks: Mapping[str, str]
    groups: Mapping[str, str]


def parse_racks(value: bytes) -> Racks:
    """Return what the value of Pulsar's key `/bookies` says of bookies; "" and `{}` say nothing.

    Raises:
        LedgerMetadataError: the value cannot be read.
    """
    try:
        groups = json.loads(value or b"{}")
        placed = [(bookie, name, info.get("rack")) for name, group in groups.items() for bookie, info in group.items()]
    except (ValueError, AttributeError) as error:
        raise LedgerMetadataError(
            f"/bookies is no JSON of groups of bookies with a rack: {error}; correct it with `pulsar-admin bookies"
            " set-bookie-rack`"
        ) from error
    racks = {bookie: str(rack) for bookie, _, rack in placed if rack is not None}
    return Racks(racks, {bookie: name for bookie, name, _ in placed})
