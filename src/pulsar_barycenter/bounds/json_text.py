"""Decodes JSON that others wrote: whatever is wrong with it is one kind of error."""

from typing import TypeVar

import msgspec

T = TypeVar("T")


def decode_json(document: bytes | str, kind: type[T]) -> T:
    """Return the value of JSON as a `kind`.

    msgspec raises errors of other kinds for text that is not UTF-8 and for arrays within thousands of arrays, which a
    reader that handles damaged input would miss.

    Raises:
        msgspec.DecodeError: it is not JSON, not of this kind, not UTF-8, or too deep.
    """
    try:
        return msgspec.json.decode(document, type=kind)
    except UnicodeDecodeError as error:
        raise msgspec.DecodeError(f"it is not text in UTF-8: {error.reason}") from error
    except RecursionError as error:
        raise msgspec.DecodeError("its objects and arrays are too deep within each other") from error
