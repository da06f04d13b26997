"""Where a value in force comes from, and who changed it."""

import enum
from typing import Annotated, Final

import msgspec

from pulsar_barycenter.config.broker_conf import shown


class Source(enum.StrEnum):
    DEFAULT = "default"
    FILE = "broker.conf"
    DYNAMIC = "dynamic"
    UNKNOWN = "default or broker.conf"
    """Of a broker of Apache Pulsar, whose defaults are not known here."""


LONGEST_NOTED: Final = 4_000
"""Characters of a value, or of a reason, that a change tells."""
_Noted = Annotated[str, msgspec.Meta(max_length=LONGEST_NOTED)]


class EarlierChange(msgspec.Struct, frozen=True, rename="camel", kw_only=True, omit_defaults=True):
    """By whom, at which epoch ms, why and by which request a part of a value was set."""

    by: _Noted
    at: Annotated[int, msgspec.Meta(ge=0, le=2**53)]
    why: _Noted = ""
    request_id: _Noted = ""


class NotedChange(msgspec.Struct, frozen=True, rename="camel", kw_only=True, omit_defaults=True):
    """The last change of a dynamic setting: by whom ("anonymous" while authentication is off), at which epoch ms, why,
    by which request.

    `value` is what it was set to, None if the override was removed, `before` what was in force; of what may be a secret
    only whether there was one (`shown`). `earlier` is kept of the list barycenterDrainedBrokers alone: who added each
    name that the change found and left there, as far as that was noted.
    """

    by: _Noted
    at: Annotated[int, msgspec.Meta(ge=0, le=2**53)]
    value: _Noted | None = None
    before: _Noted = ""
    why: _Noted = ""
    request_id: _Noted = ""
    earlier: dict[str, EarlierChange] = {}

    def is_of(self, key: str, override: str | None) -> bool:
        """Tell whether it led to what is stored now: others change settings, too, and note nothing."""
        return self.value == (None if override is None else shown(key, override)[:LONGEST_NOTED])


def source_of(value: str, default: str | None, override: str | None) -> Source:
    """Return where a value comes from; `default` is None if it is not known, `override` if none is stored."""
    if override is not None and override == value:
        return Source.DYNAMIC
    if default is None:
        return Source.UNKNOWN
    return Source.DEFAULT if value == default else Source.FILE
