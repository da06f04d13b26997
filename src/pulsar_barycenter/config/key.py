"""Describes a configuration key: its type, limits, unit, and whether it may change at run time.

A field of `BrokerConfig` carries its description in its annotation: `Annotated[Percent, about("…", dynamic=True)]`.
`Key` is the same description, read back for parsing, messages and documentation.
"""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, TypeAlias, get_args, get_origin

from msgspec import Meta

from pulsar_barycenter.config.pulsar_version import FORMER_DEFAULTS, VERSIONS, PulsarVersion

Percent: TypeAlias = Annotated[int, Meta(ge=0, le=100, extra={"unit": "%"})]
Fraction: TypeAlias = Annotated[float, Meta(ge=0, le=1, extra={"unit": "fraction"})]
Weight: TypeAlias = Annotated[float, Meta(ge=0, extra={"unit": "factor"})]
Port: TypeAlias = Annotated[int, Meta(ge=0, le=65535, extra={"unit": "port"})]
Count: TypeAlias = Annotated[int, Meta(ge=0, extra={"unit": ""})]
Partitions: TypeAlias = Annotated[int, Meta(ge=1, le=10_000, extra={"unit": "partitions"})]
Bundles: TypeAlias = Annotated[int, Meta(ge=1, le=1 << 14, extra={"unit": "bundles"})]
AtLeastOne: TypeAlias = Annotated[int, Meta(ge=1, extra={"unit": ""})]
RingPoints: TypeAlias = Annotated[int, Meta(ge=1, le=10_000, extra={"unit": "points"})]
Bookies: TypeAlias = Annotated[int, Meta(ge=1, le=100, extra={"unit": "bookies"})]
BookieTimeout: TypeAlias = Annotated[float, Meta(ge=0.1, le=3600, extra={"unit": "s"})]
CountOrOff: TypeAlias = Annotated[int, Meta(ge=-1, extra={"unit": ""})]
BytesOrOff: TypeAlias = Annotated[int, Meta(ge=-1, le=10**18 - 1, extra={"unit": "bytes"})]
MebibytesOrOff: TypeAlias = Annotated[int, Meta(ge=-1, le=2**43 - 1, extra={"unit": "MiB"})]
GibibytesOrOff: TypeAlias = Annotated[float, Meta(ge=-1, le=2**33 - 1, extra={"unit": "GiB"})]
WholeSeconds: TypeAlias = Annotated[int, Meta(ge=0, le=2**31 - 1, extra={"unit": "s"})]
WholeSecondsOrOff: TypeAlias = Annotated[int, Meta(ge=-1, le=2**31 - 1, extra={"unit": "s"})]
WholeMinutes: TypeAlias = Annotated[int, Meta(ge=0, le=2**31 - 1, extra={"unit": "min"})]
WholeMinutesOrOff: TypeAlias = Annotated[int, Meta(ge=-1, le=2**31 - 1, extra={"unit": "min"})]
Millis: TypeAlias = Annotated[int, Meta(ge=0, extra={"unit": "ms"})]
IntervalMillis: TypeAlias = Annotated[int, Meta(ge=1, extra={"unit": "ms"})]
Seconds: TypeAlias = Annotated[float, Meta(ge=0, extra={"unit": "s"})]
IntervalSeconds: TypeAlias = Annotated[float, Meta(gt=0, extra={"unit": "s"})]
Minutes: TypeAlias = Annotated[float, Meta(ge=0, extra={"unit": "min"})]
IntervalMinutes: TypeAlias = Annotated[float, Meta(gt=0, extra={"unit": "min"})]
Band: TypeAlias = Annotated[float, Meta(ge=0.5, le=100, extra={"unit": "%"})]
Patience: TypeAlias = Annotated[float, Meta(ge=0, le=1_440, extra={"unit": "min"})]
Positive: TypeAlias = Annotated[float, Meta(gt=0, extra={"unit": ""})]
Names: TypeAlias = tuple[str, ...]
Issuers: TypeAlias = Annotated[tuple[str, ...], Meta(max_length=100)]
DrainedBrokers: TypeAlias = Annotated[tuple[str, ...], Meta(max_length=100)]
SplitAlgorithm: TypeAlias = Literal[
    "range_equally_divide", "topic_count_equally_divide", "specified_positions_divide", "flow_or_qps_equally_divide"
]
SchemaStrategy: TypeAlias = Literal[
    "UNDEFINED",
    "ALWAYS_INCOMPATIBLE",
    "ALWAYS_COMPATIBLE",
    "BACKWARD",
    "FORWARD",
    "FULL",
    "BACKWARD_TRANSITIVE",
    "FORWARD_TRANSITIVE",
    "FULL_TRANSITIVE",
]

_IRREGULAR: Final = {
    "load_balancer_cpu_resource_weight": "loadBalancerCPUResourceWeight",
    "load_balancer_broker_load_data_ttl_in_seconds": "loadBalancerBrokerLoadDataTTLInSeconds",
    "managed_ledger_cache_size_mb": "managedLedgerCacheSizeMB",
    "max_message_publish_buffer_size_in_mb": "maxMessagePublishBufferSizeInMB",
    "default_retention_size_in_mb": "defaultRetentionSizeInMB",
    "backlog_quota_default_limit_gb": "backlogQuotaDefaultLimitGB",
    "bookkeeper_tls_cert_files_refresh_duration_seconds": "bookkeeperTlsCertFilesRefreshDurationSeconds",
}
_PREFIXES: Final = {"openid_": "openID", "bookkeeper_tls_": "bookkeeperTLS"}
_WHOLE = re.compile(r"[+-]?\d{1,18}", re.ASCII)
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?", re.ASCII)


def key_name(attribute: str) -> str:
    """Return the name in broker.conf of an attribute of `BrokerConfig`: `bind_address` is `bindAddress`."""
    if attribute in _IRREGULAR:
        return _IRREGULAR[attribute]
    for prefix, head in _PREFIXES.items():
        if attribute.startswith(prefix):
            return head + _capitalized(attribute.removeprefix(prefix).split("_"))
    head, *rest = attribute.split("_")
    return head + _capitalized(rest)


def _capitalized(words: Iterable[str]) -> str:
    return "".join(word.capitalize() for word in words)


def about(
    effect: str,
    *,
    dynamic: bool = False,
    unit: str | None = None,
    offered: bool = True,
    secret: bool = False,
    blank_is_none: bool = False,
    own: bool = False,
) -> Meta:
    """Describe a key of broker.conf; `effect` says what its value changes. The result is put into the annotation of a
    field.

    `offered` False: the key is known, but only its default is accepted. `secret`: the value is never shown.
    `blank_is_none`: a blank value means that there is none (no port, for example), and not the default. `own`: the
    value differs from broker to broker, for example a port, an address, a folder, a certificate.
    """
    extra: dict[str, object] = {
        "dynamic": dynamic,
        "offered": offered,
        "secret": secret,
        "blank_is_none": blank_is_none,
        "own": own,
    }
    if unit is not None:
        extra["unit"] = unit
    return Meta(description=effect, extra=extra)


@dataclass(frozen=True, slots=True)
class Key:
    """One key: Pulsar's name, the attribute of `BrokerConfig`, and the allowed values.

    `at_least` and `at_most` are inclusive, `above` is exclusive. `default` is the default of the newest version, None
    for an optional key that is not set. `former_defaults` has the defaults in other versions of Pulsar, where they
    differ from `default`.
    """

    name: str
    attribute: str
    kind: type[Any]
    default: Any
    effect: str
    unit: str
    dynamic: bool
    offered: bool
    secret: bool
    blank_is_none: bool
    own: bool
    optional: bool
    at_least: float | None
    above: float | None
    at_most: float | None
    choices: tuple[str, ...]
    most_names: int | None
    former_defaults: Mapping[PulsarVersion, Any]

    def default_of(self, version: PulsarVersion) -> Any:
        """Return the default of this key in the given version of Pulsar."""
        return self.former_defaults.get(version, self.default)

    def allowed(self) -> str:
        """Return a text that describes the allowed values of this key, such as "a whole number from 0 to 100"."""
        if not self.offered:
            return f"{format_value(self.default) or 'blank'} (other values are not supported)"
        if self.choices:
            return " or ".join(self.choices)
        if self.kind is bool:
            return "true or false"
        if self.kind is str:
            return "text"
        if self.kind not in (int, float):
            most = "" if self.most_names is None else f"at most {self.most_names:,} "
            return f"{most}names separated by commas"
        words = "a whole number" if self.kind is int else "a number"
        if self.at_least is not None and self.at_most is not None:
            return f"{words} from {format_value(self.at_least)} to {format_value(self.at_most)}"
        if self.at_least is not None:
            return f"{words} of at least {format_value(self.at_least)}"
        return f"{words} above {format_value(self.above)}" if self.above is not None else words

    def parse(self, text: str, version: PulsarVersion = VERSIONS[0]) -> Any:
        """Parse `text`, a value of this key. A blank text means the default in that version of Pulsar, or None if
        `blank_is_none`.

        Raises:
            ValueError: the value is not allowed. The error has no message; `allowed` describes the allowed values.
        """
        text = text.strip()
        if not text:
            return None if self.blank_is_none else self.default_of(version)
        value = self._convert(text)
        if not self.offered and value != self.default:
            raise ValueError
        return value

    def _convert(self, text: str) -> Any:
        if self.kind is bool:
            return {"true": True, "false": False}[_one_of(text.lower(), ("true", "false"))]
        if self.kind in (int, float):
            return self._number(text)
        if self.kind is str:
            return _one_of(text, self.choices) if self.choices else text
        names = tuple(name for name in (piece.strip() for piece in text.split(",")) if name)
        for name in names if self.choices else ():
            _one_of(name, self.choices)
        if self.most_names is not None and len(names) > self.most_names:
            raise ValueError
        return names

    def _number(self, text: str) -> int | float:
        pattern = _WHOLE if self.kind is int else _NUMBER
        if pattern.fullmatch(text) is None:
            raise ValueError
        value = int(text) if self.kind is int else float(text)
        too_low = (self.at_least is not None and value < self.at_least) or (
            self.above is not None and value <= self.above
        )
        if too_low or (self.at_most is not None and value > self.at_most) or math.isinf(value):
            raise ValueError
        return value


def _one_of(text: str, choices: tuple[str, ...]) -> str:
    if text not in choices:
        raise ValueError
    return text


def format_value(value: Any) -> str:
    """Return the text with which `value` is written in a broker.conf file: blank for None, "15" for 15.0."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(value)
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return str(value)


def key_of(name: str, attribute: str, annotation: Any, default: Any) -> Key:
    """Build the description of a key from a field of `BrokerConfig`: its name, annotation and default."""
    metas: list[Meta] = []
    base = _unwrap(annotation, metas)
    optional = False
    if type(None) in get_args(base):
        optional = True
        base = _unwrap(next(arg for arg in get_args(base) if arg is not type(None)), metas)
    item = get_args(base)[0] if get_origin(base) is tuple else base
    choices = tuple(get_args(item)) if get_origin(item) is Literal else ()
    kind = tuple if get_origin(base) is tuple else (str if choices else base)
    extra: dict[str, Any] = {}
    for meta in reversed(metas):  # the outermost annotation is last, so it wins
        extra.update(meta.extra or {})
    return Key(
        name=name,
        attribute=attribute,
        kind=kind,
        default=default,
        effect=next((meta.description for meta in metas if meta.description), ""),
        unit=extra.get("unit", ""),
        dynamic=extra.get("dynamic", False),
        offered=extra.get("offered", True),
        secret=extra.get("secret", False),
        blank_is_none=extra.get("blank_is_none", False),
        own=extra.get("own", False),
        optional=optional,
        at_least=next((meta.ge for meta in metas if meta.ge is not None), None),
        above=next((meta.gt for meta in metas if meta.gt is not None), None),
        at_most=next((meta.le for meta in metas if meta.le is not None), None),
        choices=choices,
        most_names=next((meta.max_length for meta in metas if meta.max_length is not None), None),
        former_defaults={of: known[attribute] for of, known in FORMER_DEFAULTS.items() if attribute in known},
    )


def _unwrap(annotation: Any, metas: list[Meta]) -> Any:
    """Return the type inside an annotation; append the `Meta` objects around it to `metas`, outermost first."""
    while get_origin(annotation) is Annotated:
        annotation, *extras = get_args(annotation)
        metas.extend(meta for meta in reversed(extras) if isinstance(meta, Meta))
    return annotation
