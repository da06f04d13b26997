"""Reads a secret or a certificate to which a value of broker.conf refers: the value names a file, or contains the data.

| value                            | meaning                                            |
|---------------------------------|----------------------------------------------------|
| `file:///path`, `file:/path`    | the content of the file                            |
| `data:;base64,…`, `data:,…`     | these bytes, in Base64 or percent-encoded          |
| the path of an existing file    | the content of the file                            |
| anything else                   | these bytes, in Base64                             |

Source: Pulsar's `AuthTokenUtils.readKeyFromUrl` and its class of `data:` URLs.
"""

import base64
import binascii
from pathlib import Path
from typing import Final
from urllib.parse import unquote, unquote_to_bytes, urlsplit

from pulsar_barycenter.credentials.errors import KeyMaterialError

MAX_BYTES: Final = 1 << 20
"""The maximum size in bytes of a file of keys, certificates or passwords."""

_SHORTEST_KEY: Final = 40
"""The number of characters of the shortest key in Base64. A shorter text can only be a path."""
_HINT: Final = "set file:///path/to/the/key, or data:;base64, followed by the key in Base64"


def read_key_material(text: str, setting: str) -> bytes:
    """Return the bytes to which `text` refers: the content of a file, if `text` is `file:///path` or the path of an
    existing file; otherwise the bytes that `text` itself contains, as a `data:` URL or in Base64. `setting` names the
    setting that contains `text`, for messages.

    Raises:
        KeyMaterialError: the file does not exist, cannot be read, is empty or larger than MAX_BYTES, or the data is not
            encoded as stated.
    """
    if text.startswith("data:"):
        data = _data_of_url(text, setting)
    elif (path := _path_of(text)) is not None:
        data = read_file(path, setting)
    else:
        otherwise = f"there is no file {_shown(text)}, and it is not a key in Base64 either"
        if _is_like_path(text) and len(text) < _SHORTEST_KEY:
            raise KeyMaterialError(setting, f"{otherwise}; {_HINT}")
        data = _decoded(text, setting, otherwise)
    if not data:
        raise KeyMaterialError(setting, "the value, or the file that it names, is empty")
    return data


def read_file(path: Path, setting: str) -> bytes:
    """Return the content of a file with a credential. `setting` names the setting that refers to the file, for
    messages.

    Raises:
        KeyMaterialError: the file cannot be read, or is larger than MAX_BYTES.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        raise KeyMaterialError(
            setting, f"cannot read {path}: {reason}; name a file that the user of this process may read"
        ) from error
    if len(data) > MAX_BYTES:
        raise KeyMaterialError(
            setting,
            f"{path} has more than {MAX_BYTES:,} bytes: a key is smaller. Name another file",
        )
    return data


def path_of_url(text: str) -> Path:
    """Return the path in the URL `file:///path`. A text without `file:` is a path already."""
    return Path(unquote(urlsplit(text).path)) if text.startswith("file:") else Path(text)


def _path_of(text: str) -> Path | None:
    if text.startswith("file:"):
        return path_of_url(text)
    try:
        return Path(text) if Path(text).is_file() else None
    except (OSError, ValueError):  # the text is too long for a file name, or has a NUL
        return None


def _data_of_url(url: str, setting: str) -> bytes:
    kind, comma, data = url.removeprefix("data:").partition(",")
    if not comma:
        raise KeyMaterialError(
            setting, "the text after data: has no comma; write data:;base64, followed by the key in Base64"
        )
    if kind.endswith(";base64"):
        return _decoded(unquote(data), setting, "the text after data:;base64, is not Base64")
    return unquote_to_bytes(data)


def _decoded(text: str, setting: str, otherwise: str) -> bytes:
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        raise KeyMaterialError(setting, f"{otherwise}; {_HINT}") from None


def _is_like_path(text: str) -> bool:
    return text.startswith(("/", "./", "../", "~"))


def _shown(text: str) -> str:
    """Return `text` for a message. A text that does not look like a path may be part of a key: then return a
    placeholder.
    """
    return text[:200] if _is_like_path(text) else "of that name"
