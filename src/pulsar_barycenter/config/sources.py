"""Where the current value of a key comes from (the file, a default, a change at run time), and who changed it."""

import enum
from typing import Annotated, Final

import msgspec

from pulsar_barycenter.config.broker_conf import shown


class Source(enum.StrEnum):
    """Where the current value of a key comes from."""

    DEFAULT = "default"
    FILE = "broker.conf"
    DYNAMIC = "dynamic"
    UNKNOWN = "default or broker.conf"
    """The source of a value of an Apache Pulsar broker, whose defaults this program does not know."""


MAX_NOTED_CHARACTERS: Final = 4_000
"""The maximum number of characters of the value and of the reason that the record of a change contains."""
_Noted = Annotated[str, msgspec.Meta(max_length=MAX_NOTED_CHARACTERS)]


class EarlierChange(msgspec.Struct, frozen=True, rename="camel", kw_only=True, omit_defaults=True):
    """An earlier change of a value that still has an effect. `by` is the role that made it, `at` the time (ms since
    1970), `why` the reason that was given, `request_id` the request.
    """

    by: _Noted
    at: Annotated[int, msgspec.Meta(ge=0, le=2**53)]
    why: _Noted = ""
    request_id: _Noted = ""


class NotedChange(msgspec.Struct, frozen=True, rename="camel", kw_only=True, omit_defaults=True):
    """The last change of a dynamic key of broker.conf. `by` is the role that made it ("anonymous" without
    authentication), `at` the time (ms since 1970), `why` the reason that was given, `request_id` the request.

    `value` is the new value, None if the override was removed; `before` is the previous value. If the key may be
    secret, both are hidden, see `shown`. `earlier` is for the list barycenterDrainedBrokers only: for each name that
    was in the list before this change and still is, the change that added it, if it was recorded.
    """

    by: _Noted
    at: Annotated[int, msgspec.Meta(ge=0, le=2**53)]
    value: _Noted | None = None
    before: _Noted = ""
    why: _Noted = ""
    request_id: _Noted = ""
    earlier: dict[str, EarlierChange] = {}

    def is_of(self, key: str, override: str | None) -> bool:
        """Return whether this change set `override`, the value of `key` that is stored now. Other tools change settings
        without recording the change.
        """
        return self.value == (None if override is None else shown(key, override)[:MAX_NOTED_CHARACTERS])


def source_of(value: str, default: str | None, override: str | None) -> Source:
    """Return where the value of a key comes from.

    `default` is the default of the key, None if it is unknown. `override` is the value that was set at run time, None
    if there is none.
    """
    if override is not None and override == value:
        return Source.DYNAMIC
    if default is None:
        return Source.UNKNOWN
    return Source.DEFAULT if value == default else Source.FILE
