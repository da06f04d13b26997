"""The rights that requests require, as data. `broker.rest.rights` checks them for a request.

Source: the checks of Pulsar's `PulsarWebResource`.
"""

from dataclasses import dataclass
from typing import Final, TypeAlias

from pulsar_barycenter.admin.operations import NamespaceOperation, PolicyOperation, TenantOperation, TopicOperation


@dataclass(frozen=True, slots=True)
class Public:
    """The route requires no right: every client may send the request."""


@dataclass(frozen=True, slots=True)
class KnownCaller:
    """The route requires that the caller is authenticated, but no grant."""


@dataclass(frozen=True, slots=True)
class SuperUser:
    """The route requires that the caller is a super user."""


@dataclass(frozen=True, slots=True)
class ForMetrics:
    """The route requires no right; but with `authenticateMetricsEndpoint` the caller must be authenticated."""


@dataclass(frozen=True, slots=True)
class OnTenant:
    """The route requires the right to `operation` on the tenant in the path."""

    operation: TenantOperation


@dataclass(frozen=True, slots=True)
class OnQueriedTenant:
    """The route requires the right to `operation` on the tenant that a parameter of the query names."""

    operation: TenantOperation


@dataclass(frozen=True, slots=True)
class OnNamespace:
    """The route requires the right to `operation` on the namespace in the path."""

    operation: NamespaceOperation


@dataclass(frozen=True, slots=True)
class OnPolicy:
    """The route requires the right to `operation` (to read or to write) on a policy of the namespace in the path.
    `policy` is Pulsar's `PolicyName` of this policy.
    """

    policy: str
    operation: PolicyOperation


@dataclass(frozen=True, slots=True)
class OnTopic:
    """The route requires the right to `operation` on the topic in the path. `has_subscription`: the path also names a
    subscription, and the caller must have the right for this subscription, too.
    """

    operation: TopicOperation
    has_subscription: bool = False


@dataclass(frozen=True, slots=True)
class OnLookedUpTopic:
    """The route requires the right to look up the topic in the path of a look-up request."""


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
