"""What a request can need: an operation of `admin.operations`, with the tenant, namespace or topic that it concerns.

A need is a value; `rules.decide` says whether somebody has what it asks for. `str` of one says it for the log and for
whoever is refused, without anything that they did not say themselves.
Source: Pulsar's `AuthAction`, `PolicyName`.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from pulsar_barycenter.admin.operations import NamespaceOperation, PolicyOperation, TenantOperation, TopicOperation
from pulsar_barycenter.naming.namespace import NamespaceName
from pulsar_barycenter.naming.topic import TopicName


class AuthAction(StrEnum):
    """What a role is granted. The last four are kept and shown; nothing in Barycenter asks for them but PACKAGES."""

    PRODUCE = "produce"
    CONSUME = "consume"
    FUNCTIONS = "functions"
    SOURCES = "sources"
    SINKS = "sinks"
    PACKAGES = "packages"


@dataclass(frozen=True, slots=True)
class Public:
    """Nothing: whoever reaches the port may, without saying who it is."""

    def __str__(self) -> str:
        return "anything"


@dataclass(frozen=True, slots=True)
class Authenticated:
    """To be somebody: any role, whatever it was granted."""

    def __str__(self) -> str:
        return "ask this broker"


@dataclass(frozen=True, slots=True)
class SuperUser:
    """One of `superUserRoles`: what concerns brokers, clusters or tenants as such."""

    def __str__(self) -> str:
        return "do what super users do"


@dataclass(frozen=True, slots=True)
class OfTenant:
    """To administrate the tenant."""

    tenant: str
    operation: TenantOperation

    def __str__(self) -> str:
        return f"{self.operation} of tenant {self.tenant}"


@dataclass(frozen=True, slots=True)
class OfNamespace:
    """To administrate its tenant, or what `rules.NAMESPACE_ACTIONS` says."""

    namespace: NamespaceName
    operation: NamespaceOperation

    def __str__(self) -> str:
        return f"{self.operation} of namespace {self.namespace}"


@dataclass(frozen=True, slots=True)
class OfPolicy:
    """To administrate the tenant of the namespace; `policy` is Pulsar's `PolicyName`, for the log."""

    namespace: NamespaceName
    policy: str
    operation: PolicyOperation

    def __str__(self) -> str:
        return f"{self.operation} the policy {self.policy} of namespace {self.namespace}"


@dataclass(frozen=True, slots=True)
class OfTopic:
    """To administrate its tenant, or what `rules.TOPIC_ACTIONS` says; with a subscription also what is said of that."""

    topic: TopicName
    operation: TopicOperation
    subscription: str | None = None

    def __str__(self) -> str:
        of_subscription = "" if self.subscription is None else f" with subscription {self.subscription}"
        return f"{self.operation} at topic {self.topic}{of_subscription}"


Need: TypeAlias = Public | Authenticated | SuperUser | OfTenant | OfNamespace | OfPolicy | OfTopic


def tenant_of(need: Need) -> str | None:
    """Return the tenant whose administrators have what `need` asks for, None where only super users have."""
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
    """Return the namespace whose grants may give what `need` asks for, None if none may."""
    match need:
        case OfNamespace():
            return need.namespace
        case OfTopic():
            return need.topic.namespace
        case _:
            return None
