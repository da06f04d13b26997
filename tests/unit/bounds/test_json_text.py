"""Decoding JSON of others: one kind of error."""

import msgspec
import pytest

from pulsar_barycenter.bounds.json_text import decode_json
from pulsar_barycenter.load.reports.load_report import decode_report
from pulsar_barycenter.metadata.codec import JsonCodec
from pulsar_barycenter.metadata.errors import InvalidValueError


class Known(msgspec.Struct):
    name: str = ""


def test_a_value_has_its_kind() -> None:
    assert decode_json(b'{"name": "a", "more": [[1]]}', Known) == Known("a")


@pytest.mark.parametrize(
    "document",
    [b"", b"{", b'{"name": 1}', b'{"name": "\xff"}', b'{"more": ' + b"[" * 100_000, b"9" * 5_000],
    ids=range(6),
)
def test_whatever_is_wrong_is_one_kind_of_error(document: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        decode_json(document, Known)


@pytest.mark.parametrize("document", [b'{"brokerId": "\xff"}', b'{"more": ' + b"[" * 100_000], ids=["text", "deep"])
def test_a_report_has_the_same(document: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        decode_report(document)


@pytest.mark.parametrize("document", [b'{"name": "\xff"}', b'{"more": ' + b"[" * 100_000], ids=["text", "deep"])
def test_a_stored_value_has_an_error_with_its_path(document: bytes) -> None:
    with pytest.raises(InvalidValueError, match="/brokers/a"):
        JsonCodec(Known).decode("/brokers/a", document)
