"""Decodes JSON that clients or other programs wrote. Every kind of invalid text gives the same class of error."""

from typing import TypeVar

import msgspec

T = TypeVar("T")


def decode_json(document: bytes | str, kind: type[T]) -> T:
    """Decode `document`, JSON text, to a value of the type `kind`.

    For text that is not UTF-8, and for thousands of nested arrays, msgspec raises other classes of errors. This
    function converts them, so that callers need to catch only one class.

    Raises:
        msgspec.DecodeError: the document is not JSON, does not fit `kind`, is not UTF-8, or is nested too deeply.
    """
    try:
        return msgspec.json.decode(document, type=kind)
    except UnicodeDecodeError as error:
        raise msgspec.DecodeError(f"the text is not valid UTF-8: {error.reason}") from error
    except RecursionError as error:
        raise msgspec.DecodeError("the JSON objects and arrays are nested too deeply") from error
