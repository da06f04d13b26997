"""Encodes the request to start TLS, which is the only request of version 3 of the protocol, and decodes its answer.

A bookie parses requests as version 3 until one is not of that version, so requests of version 2 may follow in TLS.

Source: `BookieProtoEncoding.RequestDecoder` and `BookieRequestProcessor.processStartTLSRequestV3` of BookKeeper.
"""

from typing import Final

from google.protobuf.message import DecodeError

from pulsar_barycenter.bookkeeper.errors import BookieRefusedError, MalformedAnswerError
from pulsar_barycenter.bookkeeper.wire.bookie_opening_pb2 import (
    OpeningRequest,
    OpeningResponse,
    PacketHeader,
    StartTlsRequest,
)

_VERSION: Final = 3
_START_TLS: Final = 9
_OK: Final = 0
_BAD_REQUEST: Final = 404
_FIRST_BYTE: Final = b"\x0a"
"""Every packet of version 3 begins with the tag of its header, and no packet of version 2 does."""


def encode_start_tls() -> bytes:
    """Return the request to start TLS on a connection."""
    header = PacketHeader(version=_VERSION, operation=_START_TLS, txnId=1)
    request = OpeningRequest(header=header, startTLSRequest=StartTlsRequest()).SerializeToString()
    return len(request).to_bytes(4, "big") + request


def is_of_version_3(packet: bytes) -> bool:
    """Return whether a packet, without its size, is of version 3 of the protocol."""
    return packet.startswith(_FIRST_BYTE)


def check_start_tls(packet: bytes) -> None:
    """Check that a bookie accepted the request to start TLS. `packet` is its answer without the size.

    Raises:
        BookieRefusedError: it did not.
        MalformedAnswerError: the bytes are no answer to that request.
    """
    try:
        answer = OpeningResponse.FromString(packet)
    except DecodeError as error:
        raise MalformedAnswerError(f"a bookie sent an answer to START_TLS that cannot be read: {error}") from None
    if answer.header.operation != _START_TLS:
        raise MalformedAnswerError(f"a bookie answers operation {answer.header.operation}, which was not requested")
    if answer.status == _BAD_REQUEST:
        raise BookieRefusedError(
            "the bookie does not offer TLS. Set tlsProviderFactoryClass and a certificate in the configuration of the "
            "bookie, or switch off TLS in the configuration of this client"
        )
    if answer.status != _OK:
        raise BookieRefusedError(
            f"the bookie refused to start TLS with status {answer.status}: see the log of the bookie"
        )
