"""Namespace names, the rule for entity names, and the namespaces that brokers reserve for themselves.

Source: Pulsar's `NamespaceName`, `NamedEntity` and the patterns of `NamespaceService`.
"""

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from pulsar_barycenter.naming.errors import InvalidNameError

MAX_ENTITY_NAME: Final = 255
"""The maximum length of the name of a tenant, namespace, cluster or failure domain, in characters."""

RESERVED_PATH_SEGMENTS: Final = (".", "..")
"""Names that cannot be part of a URL path, because HTTP clients resolve them before they send the request."""

_ENTITY: Final = re.compile(r"[-=:.\w]*", re.ASCII)
_LONGEST_TEXT: Final = 3 * MAX_ENTITY_NAME + 2
_HEARTBEAT_V1: Final = re.compile(r"pulsar/[^/]+/([^:]+:\d+)", re.ASCII)
_HEARTBEAT_V2: Final = re.compile(r"pulsar/([^:/]+:\d+)", re.ASCII)
_SLA_MONITOR: Final = re.compile(r"sla-monitor/(?:[^/]+/)?([^/:]+:\d+)", re.ASCII)


def validate_entity_name(kind: str, text: str) -> None:
    """Check that `text` is a valid name of a tenant, namespace or cluster: ASCII letters, digits and `_ - = : .`

    `kind` is the first word of the error message, such as "Tenant" in "Tenant name is not valid".

    Raises:
        InvalidNameError: `text` is empty, longer than MAX_ENTITY_NAME, has another character, or is `.` or `..`.
    """
    if len(text) > MAX_ENTITY_NAME:
        raise InvalidNameError(
            text, f"{kind} name is not valid (it has {len(text)} characters, from 1 to {MAX_ENTITY_NAME} are allowed)"
        )
    if not text or _ENTITY.fullmatch(text) is None:
        raise InvalidNameError(text, f"{kind} name is not valid (letters, digits and _ - = : . are allowed)")
    if text in RESERVED_PATH_SEGMENTS:
        raise InvalidNameError(
            text, f"{kind} name is not valid (. and .. mean folders in the path of a URL; choose another name)"
        )


@dataclass(frozen=True, slots=True, eq=False)
class NamespaceName:
    """The name of a namespace: `tenant/namespace`, or `tenant/cluster/namespace` in the legacy form (then `cluster` is
    set).

    Namespace names are ordered by their texts. Create one by `parse`, so that its parts are always valid.
    """

    _text: str
    tenant: str = field(repr=False)
    cluster: str | None = field(repr=False)
    local_name: str = field(repr=False)
    _hash: int = field(repr=False)

    @staticmethod
    def parse(text: str) -> "NamespaceName":
        """Parse the name of a namespace. The last 20,000 results are cached.

        Raises:
            InvalidNameError: the text does not have two or three non-empty parts, or a part is not valid.
        """
        return _parse(text)

    @staticmethod
    def of(tenant: str, local_name: str, cluster: str | None = None) -> "NamespaceName":
        return _parse(f"{tenant}/{local_name}" if cluster is None else f"{tenant}/{cluster}/{local_name}")

    @property
    def is_v2(self) -> bool:
        return self.cluster is None

    def __str__(self) -> str:
        return self._text

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, NamespaceName) and self._text == other._text)

    def __lt__(self, other: "NamespaceName") -> bool:
        return self._text < other._text


@lru_cache(maxsize=20_000)
def _parse(text: str) -> NamespaceName:
    if len(text) > _LONGEST_TEXT:
        raise InvalidNameError(text, f"Namespace name is not valid (it has {len(text)} characters, which is too long)")
    parts = text.split("/")
    if len(parts) not in (2, 3) or not all(parts):
        raise InvalidNameError(text, "Namespace name is not valid: it must have the form tenant/namespace")
    validate_entity_name("Tenant", parts[0])
    if len(parts) == 3:
        validate_entity_name("Cluster", parts[1])
    validate_entity_name("Namespace", parts[-1])
    return NamespaceName(text, parts[0], parts[1] if len(parts) == 3 else None, parts[-1], hash(text))


SYSTEM_NAMESPACE: Final = NamespaceName.parse("pulsar/system")


def heartbeat_namespaces(cluster: str, broker_id: str) -> tuple[NamespaceName, NamespaceName]:
    """Return the two heartbeat namespaces of a broker: `pulsar/<id>`, then the legacy form `pulsar/<cluster>/<id>`."""
    return NamespaceName.of("pulsar", broker_id), NamespaceName.of("pulsar", broker_id, cluster)


def heartbeat_broker(namespace: NamespaceName) -> str | None:
    """If `namespace` is the heartbeat namespace of a broker (in the new or the legacy form), return the broker's id,
    else None.
    """
    if namespace.tenant != "pulsar":
        return None
    pattern = _HEARTBEAT_V2 if namespace.is_v2 else _HEARTBEAT_V1
    match = pattern.fullmatch(str(namespace))
    return match[1] if match else None


def sla_monitor_broker(namespace: NamespaceName) -> str | None:
    """If `namespace` is the SLA-monitor namespace of a broker, return the broker's id, else None."""
    if namespace.tenant != "sla-monitor":
        return None
    match = _SLA_MONITOR.fullmatch(str(namespace))
    return match[1] if match else None


def is_system_namespace(namespace: NamespaceName) -> bool:
    return namespace == SYSTEM_NAMESPACE


def is_broker_bound(namespace: NamespaceName) -> bool:
    """Return whether the namespace belongs to one broker (heartbeat, SLA monitor). Bundles of such a namespace are
    never shed or split.
    """
    return heartbeat_broker(namespace) is not None or sla_monitor_broker(namespace) is not None
