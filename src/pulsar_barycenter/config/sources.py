"""Where a current value comes from, and who changed it."""

import enum
from typing import Annotated, Final

import msgspec

from pulsar_barycenter.config.broker_conf import shown


class Source(enum.StrEnum):
    """The source of a current value."""

    DEFAULT = "default"
    FILE = "broker.conf"
    DYNAMIC = "dynamic"
    UNKNOWN = "default or broker.conf"
    """For a broker of Apache Pulsar, whose defaults are not known here."""


MAX_NOTED_CHARACTERS: Final = 4_000
"""The maximum number of characters of a value or a reason in the record of a change."""
_Noted = Annotated[str, msgspec.Meta(max_length=MAX_NOTED_CHARACTERS)]


class EarlierChange(msgspec.Struct, frozen=True, rename="camel", kw_only=True, omit_defaults=True):
    """Who set a part of a value, when (ms since 1970), why and by which request."""

    by: _Noted
    at: Annotated[int, msgspec.Meta(ge=0, le=2**53)]
    why: _Noted = ""
    request_id: _Noted = ""


class NotedChange(msgspec.Struct, frozen=True, rename="camel", kw_only=True, omit_defaults=True):
    """The last change of a dynamic setting: principal ("anonymous" while authentication is off), time (ms since 1970),
    why, and by which request.

    `value` is the new value, None if the override was removed; `before` is the previous value. Of a possible secret,
    both only say whether there was a value (`shown`).
    `earlier` exists for the list barycenterDrainedBrokers only: the changes that added the names that were in the list
    before this change and are still in it, as far as they were recorded.
    """

    by: _Noted
    at: Annotated[int, msgspec.Meta(ge=0, le=2**53)]
    value: _Noted | None = None
    before: _Noted = ""
    why: _Noted = ""
    request_id: _Noted = ""
    earlier: dict[str, EarlierChange] = {}

    def is_of(self, key: str, override: str | None) -> bool:
        """Return whether this change set the override that is stored now. Other tools change settings without recording
        the change.
        """
        return self.value == (None if override is None else shown(key, override)[:MAX_NOTED_CHARACTERS])


def source_of(value: str, default: str | None, override: str | None) -> Source:
    """Return where a value comes from. `default` is None if it is unknown, `override` is None if none is stored."""
    if override is not None and override == value:
        return Source.DYNAMIC
    if default is None:
        return Source.UNKNOWN
    return Source.DEFAULT if value == default else Source.FILE
