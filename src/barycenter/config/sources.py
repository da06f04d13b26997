"""Where a value in force comes from, and what of it may be shown."""

import enum
from typing import Final

from barycenter.config.broker_conf import HIDDEN, keys

_SECRET_WORDS: Final = ("password", "secret", "privatekey", "authparam", "authenticationparam", "credential")


class Source(enum.StrEnum):
    DEFAULT = "default"
    FILE = "broker.conf"
    DYNAMIC = "dynamic"
    UNKNOWN = "default or broker.conf"
    """Of a broker of Apache Pulsar, whose defaults are not known here."""


def source_of(value: str, default: str | None, override: str | None) -> Source:
    """Return where a value comes from; `default` is None if it is not known, `override` if none is stored."""
    if override is not None and override == value:
        return Source.DYNAMIC
    if default is None:
        return Source.UNKNOWN
    return Source.DEFAULT if value == default else Source.FILE


def shown(key: str, text: str) -> str:
    """Return a value as it may be shown: what is a secret, or by its name may be, is not, unless it is blank."""
    known = keys().get(key)
    is_secret = (known is not None and known.secret) or any(word in key.lower() for word in _SECRET_WORDS)
    return HIDDEN if text and is_secret else text
