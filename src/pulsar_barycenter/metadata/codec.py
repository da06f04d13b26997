"""Converts values to the bytes that the store keeps, and back: JSON, unless the caller passes another codec."""

from typing import Generic, Protocol, TypeVar

import msgspec

from pulsar_barycenter.metadata.errors import InvalidValueError

T = TypeVar("T")


class Codec(Protocol[T]):
    """Converts values of one type to bytes and back."""

    def encode(self, value: T) -> bytes: ...

    def decode(self, path: str, data: bytes) -> T:
        """Return the value that `data`, stored at `path`, represents.

        Raises:
            InvalidValueError: `data` does not represent such a value.
        """
        ...


class JsonCodec(Generic[T]):
    """Converts values of one type to UTF-8 JSON and back. Unknown fields are ignored when reading."""

    def __init__(self, value_type: type[T]) -> None:
        self._encoder = msgspec.json.Encoder()
        self._decoder = msgspec.json.Decoder(value_type)

    def encode(self, value: T) -> bytes:
        return self._encoder.encode(value)

    def decode(self, path: str, data: bytes) -> T:
        try:
            return self._decoder.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise InvalidValueError(path, str(error)) from error
