"""Reads the address at which a bookie listens from the bookie's key below `available`.

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
    """Return where the bookie with this id listens for requests. `value` is the value of its key in the metadata store.
    If the value names no address, the id is used.

    Raises:
        LedgerMetadataError: the value cannot be read; or it has no address and the id is not `host:port`.
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
            f"bookie {bookie}: its address is not known, because its registration has no endpoint of bookie-rpc and "
            "its id is not host:port"
        )
    return Address(host, int(port))


class Racks(NamedTuple):
    """The rack and the group of each bookie, by bookie id; a bookie that has none is not in the map."""

    racks: Mapping[str, str]
    groups: Mapping[str, str]


def parse_racks(value: bytes) -> Racks:
    """Return the racks and groups of bookies from the value of Pulsar's key `/bookies`. An empty value or `{}` has
    none.

    Raises:
        LedgerMetadataError: the value cannot be read.
    """
    try:
        groups = json.loads(value or b"{}")
        placed = [(bookie, name, info.get("rack")) for name, group in groups.items() for bookie, info in group.items()]
    except (ValueError, AttributeError) as error:
        raise LedgerMetadataError(
            f"the value of the key /bookies is not JSON of groups of bookies with racks: {error}; correct it with "
            "`pulsar-admin bookies set-bookie-rack`"
        ) from error
    racks = {bookie: str(rack) for bookie, _, rack in placed if rack is not None}
    return Racks(racks, {bookie: name for bookie, name, _ in placed})
