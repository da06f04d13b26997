"""How values become bytes: JSON by default, whatever a caller brings otherwise."""

from typing import Generic, Protocol, TypeVar

import msgspec

from pulsar_barycenter.metadata.errors import InvalidValueError

T = TypeVar("T")


class Codec(Protocol[T]):
    def encode(self, value: T) -> bytes: ...

    def decode(self, path: str, data: bytes) -> T:
        """Return the value that `data`, stored at `path`, means.

        Raises:
            InvalidValueError: it means none.
        """
        ...


class JsonCodec(Generic[T]):
    """UTF-8 JSON of one type, unknown fields ignored when reading."""

    def __init__(self, value_type: type[T]) -> None:
        self._encoder = msgspec.json.Encoder()
        self._decoder = msgspec.json.Decoder(value_type)

    def encode(self, value: T) -> bytes:
        return self._encoder.encode(value)

    def decode(self, path: str, data: bytes) -> T:
        try:
            return self._decoder.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise InvalidValueError(path, str(error)) from error
