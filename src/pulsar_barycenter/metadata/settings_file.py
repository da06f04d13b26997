"""Reads files that the settings of a metadata store name. Their size is limited."""

from pathlib import Path
from typing import Final

from pulsar_barycenter.metadata.errors import StoreSettingsError

MAX_FILE_BYTES: Final = 1 << 20


def read_settings_file(path: str) -> bytes:
    """Return the content of a file with settings, certificates or a token for a metadata store.

    Raises:
        StoreSettingsError: the file cannot be read, or is larger than MAX_FILE_BYTES.
    """
    try:
        with Path(path).open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise StoreSettingsError(path, f"the file cannot be read: {error.strerror}") from None
    if len(content) > MAX_FILE_BYTES:
        raise StoreSettingsError(path, f"the file is larger than {MAX_FILE_BYTES} bytes")
    return content
