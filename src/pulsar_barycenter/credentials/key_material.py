"""What a key of broker.conf names: a file, or data that stand in the key itself.

| text                          | what is meant                                        |
|-------------------------------|------------------------------------------------------|
| `file:///path`, `file:/path`  | the bytes of the file                                |
| `data:;base64,…`, `data:,…`   | these bytes, written in Base64 or in per cents       |
| a path, if there is such a file | the bytes of the file                              |
| anything else                 | these bytes, written in Base64                       |

Source: Pulsar's `AuthTokenUtils.readKeyFromUrl` and its class of `data:` URLs.
"""

import base64
import binascii
from pathlib import Path
from typing import Final
from urllib.parse import unquote, unquote_to_bytes, urlsplit

from pulsar_barycenter.credentials.errors import KeyMaterialError

MAX_BYTES: Final = 1 << 20
"""Of a file of keys, certificates or passwords."""

_SHORTEST_KEY: Final = 40
"""Characters of the shortest key in Base64; a path is of the same characters, and may be shorter."""
_HINT: Final = "give file:///path/to/the/key, or data:;base64, and the key in Base64"


def read_key_material(text: str, setting: str) -> bytes:
    """Return the bytes that `text` names; `setting` is where it stands, for messages.

    Raises:
        KeyMaterialError: there is no such file, it cannot be read, is empty or larger than MAX_BYTES, or the data are
            not as they say.
    """
    if text.startswith("data:"):
        data = _data_of_url(text, setting)
    elif (path := _path_of(text)) is not None:
        data = read_file(path, setting)
    else:
        otherwise = f"there is no file {_shown(text)}, and it is not Base64 of a key either"
        if _is_like_path(text) and len(text) < _SHORTEST_KEY:
            raise KeyMaterialError(setting, f"{otherwise}; {_HINT}")
        data = _decoded(text, setting, otherwise)
    if not data:
        raise KeyMaterialError(setting, "there is nothing in it")
    return data


def read_file(path: Path, setting: str) -> bytes:
    """Return the bytes of a file.

    Raises:
        KeyMaterialError: it cannot be read, or is larger than MAX_BYTES.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        raise KeyMaterialError(setting, f"cannot read {path}: {reason}; give a file that this user may read") from error
    if len(data) > MAX_BYTES:
        raise KeyMaterialError(setting, f"{path} has more than {MAX_BYTES:,} bytes; that is no key")
    return data


def path_of_url(text: str) -> Path:
    """Return the path of `file:///path`, or of a text that is a path itself."""
    return Path(unquote(urlsplit(text).path)) if text.startswith("file:") else Path(text)


def _path_of(text: str) -> Path | None:
    if text.startswith("file:"):
        return path_of_url(text)
    try:
        return Path(text) if Path(text).is_file() else None
    except (OSError, ValueError):  # too long for a name, or with a NUL: no file has it
        return None


def _data_of_url(url: str, setting: str) -> bytes:
    kind, comma, data = url.removeprefix("data:").partition(",")
    if not comma:
        raise KeyMaterialError(setting, "data: has no comma; write data:;base64, and then the key in Base64")
    if kind.endswith(";base64"):
        return _decoded(unquote(data), setting, "what stands behind data:;base64, is not Base64")
    return unquote_to_bytes(data)


def _decoded(text: str, setting: str, otherwise: str) -> bytes:
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        raise KeyMaterialError(setting, f"{otherwise}; {_HINT}") from None


def _is_like_path(text: str) -> bool:
    return text.startswith(("/", "./", "../", "~"))


def _shown(text: str) -> str:
    """Return what looks like a path; what does not may be a key that lacks a character."""
    return text[:200] if _is_like_path(text) else "of that name"
