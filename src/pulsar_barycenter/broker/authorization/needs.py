"""The rights that a request can need: an operation of `admin.operations`, and the tenant, namespace or topic.

A need is a value; `rules.decide` decides whether a principal has the right. `str(need)` is text for the log and for the
refused client; it contains nothing that the client did not send itself.
Source: Pulsar's `AuthAction`, `PolicyName`.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from pulsar_barycenter.admin.operations import NamespaceOperation, PolicyOperation, TenantOperation, TopicOperation
from pulsar_barycenter.naming.namespace import NamespaceName
from pulsar_barycenter.naming.topic import TopicName


class AuthAction(StrEnum):
    """The actions that can be granted to a role. Barycenter can store a grant of each of them. Of the last four, only
    PACKAGES has an effect.
    """

    PRODUCE = "produce"
    CONSUME = "consume"
    FUNCTIONS = "functions"
    SOURCES = "sources"
    SINKS = "sinks"
    PACKAGES = "packages"


@dataclass(frozen=True, slots=True)
class Public:
    """The need of a request that every client may send, even without authentication."""

    def __str__(self) -> str:
        return "anything"


@dataclass(frozen=True, slots=True)
class Authenticated:
    """The need of a request that every authenticated client may send, even without a grant."""

    def __str__(self) -> str:
        return "ask this broker"


@dataclass(frozen=True, slots=True)
class SuperUser:
    """The need of a request that only one of `superUserRoles` may send: about brokers, clusters, or creating and
    changing tenants.
    """

    def __str__(self) -> str:
        return "do what super users do"


@dataclass(frozen=True, slots=True)
class OfTenant:
    """The need of a request that only administrators of the tenant may send."""

    tenant: str
    operation: TenantOperation

    def __str__(self) -> str:
        return f"{self.operation} of tenant {self.tenant}"


@dataclass(frozen=True, slots=True)
class OfNamespace:
    """The need of a request that two kinds of clients may send: administrators of the namespace's tenant, and roles to
    which one of the actions in `rules.NAMESPACE_ACTIONS[operation]` is granted.
    """

    namespace: NamespaceName
    operation: NamespaceOperation

    def __str__(self) -> str:
        return f"{self.operation} of namespace {self.namespace}"


@dataclass(frozen=True, slots=True)
class OfPolicy:
    """The need of a request that only administrators of the namespace's tenant may send. `policy` is Pulsar's
    `PolicyName` of the policy that the request reads or changes; it is only used in log lines.
    """

    namespace: NamespaceName
    policy: str
    operation: PolicyOperation

    def __str__(self) -> str:
        return f"{self.operation} the policy {self.policy} of namespace {self.namespace}"


@dataclass(frozen=True, slots=True)
class OfTopic:
    """The need of a request that two kinds of clients may send: administrators of the topic's tenant, and roles to
    which one of the actions in `rules.TOPIC_ACTIONS[operation]` is granted.

    If `subscription` is set and that subscription is restricted to roles, the client's role also has to be one of
    these.
    """

    topic: TopicName
    operation: TopicOperation
    subscription: str | None = None

    def __str__(self) -> str:
        of_subscription = "" if self.subscription is None else f" with subscription {self.subscription}"
        return f"{self.operation} at topic {self.topic}{of_subscription}"


Need: TypeAlias = Public | Authenticated | SuperUser | OfTenant | OfNamespace | OfPolicy | OfTopic


def tenant_of(need: Need) -> str | None:
    """Return the tenant whose administrators have the right `need`, None if only super users have it."""
    match need:
        case OfTenant():
            return need.tenant
        case OfNamespace() | OfPolicy():
            return need.namespace.tenant
        case OfTopic():
            return need.topic.namespace.tenant
        case _:
            return None


def namespace_of(need: Need) -> NamespaceName | None:
    """Return the namespace whose grants can give the right `need`, None if no grant can."""
    match need:
        case OfNamespace():
            return need.namespace
        case OfTopic():
            return need.topic.namespace
        case _:
            return None
