"""The rights that requests require, as data. `broker.rest.rights` checks them for a request.

Source: the checks of Pulsar's `PulsarWebResource`.
"""

from dataclasses import dataclass
from typing import Final, TypeAlias

from pulsar_barycenter.admin.operations import NamespaceOperation, PolicyOperation, TenantOperation, TopicOperation


@dataclass(frozen=True, slots=True)
class Public:
    """No right: every client may send the request."""


@dataclass(frozen=True, slots=True)
class KnownCaller:
    """The caller is authenticated; no grant is required."""


@dataclass(frozen=True, slots=True)
class SuperUser:
    """The caller is a super user."""


@dataclass(frozen=True, slots=True)
class ForMetrics:
    """No right; but with `authenticateMetricsEndpoint` the caller must be authenticated."""


@dataclass(frozen=True, slots=True)
class OnTenant:
    """An operation on the tenant in the path."""

    operation: TenantOperation


@dataclass(frozen=True, slots=True)
class OnQueriedTenant:
    """An operation on the tenant in the query."""

    operation: TenantOperation


@dataclass(frozen=True, slots=True)
class OnNamespace:
    """An operation on the namespace in the path."""

    operation: NamespaceOperation


@dataclass(frozen=True, slots=True)
class OnPolicy:
    """To read or write a policy of the namespace in the path; `policy` is Pulsar's `PolicyName`."""

    policy: str
    operation: PolicyOperation


@dataclass(frozen=True, slots=True)
class OnTopic:
    """An operation on the topic in the path, and on the subscription there if `has_subscription`."""

    operation: TopicOperation
    has_subscription: bool = False


@dataclass(frozen=True, slots=True)
class OnLookedUpTopic:
    """To look up the topic in the path of a look-up."""


Right: TypeAlias = (
    Public
    | KnownCaller
    | SuperUser
    | ForMetrics
    | OnTenant
    | OnQueriedTenant
    | OnNamespace
    | OnPolicy
    | OnTopic
    | OnLookedUpTopic
)

PUBLIC: Final = Public()
KNOWN_CALLER: Final = KnownCaller()
SUPER_USER: Final = SuperUser()


def reads(policy: str) -> OnPolicy:
    return OnPolicy(policy, PolicyOperation.READ)


def writes(policy: str) -> OnPolicy:
    return OnPolicy(policy, PolicyOperation.WRITE)
