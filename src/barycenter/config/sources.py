"""Where a value in force comes from."""

import enum


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
