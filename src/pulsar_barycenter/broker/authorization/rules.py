"""Decides whether a principal has a right. Pure; each verdict has its reason.

The first rule that applies counts. Behind a proxy the rules apply to both roles, the proxy's and its client's, and both
need the right.

| role                                                               | has the right                                |
|--------------------------------------------------------------------|----------------------------------------------|
| none (not authenticated)                                           | `Public`                                     |
| one of `superUserRoles`                                            | to do everything                             |
| any                                                                | `Authenticated`                              |
| one of the tenant's `adminRoles`                                   | to do everything in the tenant               |
| one with a grant on namespace, topic, or a partition's topic       | of NAMESPACE_ACTIONS, TOPIC_ACTIONS          |
| any other                                                          | to do nothing                                |

If a subscription is restricted to some roles, no other role may use it. With `subscription_auth_mode` Prefix the name
of a subscription has to begin with the role. Both restrictions do not bind super users and administrators of the
tenant.
Source: Pulsar's `PulsarAuthorizationProvider` and `AuthorizationService`.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final

from pulsar_barycenter.admin.operations import NamespaceOperation, TopicOperation
from pulsar_barycenter.broker.access.principal import Principal
from pulsar_barycenter.broker.authorization.grants import NO_GRANTS, PREFIX, Actions, Grants, names_of
from pulsar_barycenter.broker.authorization.needs import (
    AuthAction,
    Authenticated,
    Need,
    OfNamespace,
    OfTopic,
    Public,
    tenant_of,
)

_EITHER: Final = frozenset({AuthAction.PRODUCE, AuthAction.CONSUME})
_PRODUCE: Final = frozenset({AuthAction.PRODUCE})
_CONSUME: Final = frozenset({AuthAction.CONSUME})
_NONE: Final[frozenset[AuthAction]] = frozenset()

NAMESPACE_ACTIONS: Final[Mapping[NamespaceOperation, frozenset[AuthAction]]] = {
    NamespaceOperation.GET_TOPICS: _EITHER,
    NamespaceOperation.GET_BUNDLE: _EITHER,
    NamespaceOperation.UNSUBSCRIBE: _CONSUME,
    NamespaceOperation.CLEAR_BACKLOG: _CONSUME,
    NamespaceOperation.PACKAGES: frozenset({AuthAction.PACKAGES}),
    NamespaceOperation.CREATE_TOPIC: _NONE,
    NamespaceOperation.DELETE_TOPIC: _NONE,
    NamespaceOperation.DELETE_BUNDLE: _NONE,
    NamespaceOperation.GRANT_PERMISSION: _NONE,
    NamespaceOperation.REVOKE_PERMISSION: _NONE,
    NamespaceOperation.GET_PERMISSION: _NONE,
}
"""The actions that allow an operation on a namespace; one is enough. If the set is empty, only administrators of the
tenant may do the operation.
"""

TOPIC_ACTIONS: Final[Mapping[TopicOperation, frozenset[AuthAction]]] = {
    TopicOperation.LOOKUP: _EITHER,
    TopicOperation.GET_METADATA: _EITHER,
    TopicOperation.GET_STATS: _EITHER,
    TopicOperation.PRODUCE: _PRODUCE,
    TopicOperation.CONSUME: _CONSUME,
    TopicOperation.SUBSCRIBE: _CONSUME,
    TopicOperation.UNSUBSCRIBE: _CONSUME,
    TopicOperation.RESET_CURSOR: _CONSUME,
    TopicOperation.SKIP: _CONSUME,
    TopicOperation.EXPIRE_MESSAGES: _CONSUME,
    TopicOperation.PEEK_MESSAGES: _CONSUME,
    TopicOperation.GET_BACKLOG_SIZE: _CONSUME,
    TopicOperation.GET_SUBSCRIPTIONS: _CONSUME,
    TopicOperation.COMPACT: _NONE,
    TopicOperation.TERMINATE: _NONE,
    TopicOperation.ADMINISTER_SCHEMA: _NONE,
    TopicOperation.UNLOAD: _NONE,
}
"""The actions that allow an operation on a topic; one is enough. They are granted on the topic or its namespace."""


@dataclass(frozen=True, slots=True)
class Roles:
    """The roles that the configuration names: super users and proxies. `allows_wildcards`: a role in a grant may begin
    or end with `*`.
    """

    super_users: AbstractSet[str] = frozenset()
    proxies: AbstractSet[str] = frozenset()
    allows_wildcards: bool = False
    """`authorizationAllowWildcardsMatching`: a granted role may begin or end with `*`."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The decision whether a request is `allowed`, and why. `reason` is for the operator. `is_known` is False if the
    client is not authenticated.
    """

    allowed: bool
    reason: str
    is_known: bool = True


def decide(
    who: Principal, need: Need, roles: Roles, grants: Grants = NO_GRANTS, admins: AbstractSet[str] = frozenset()
) -> Verdict:
    """Return whether `who` has the right `need`, and why.

    `grants` are those of the namespace that `need` concerns, `admins` the administrators of its tenant. Neither is used
    if `need` does not concern a namespace or tenant.
    """
    if isinstance(need, Public):
        return Verdict(True, "every client may")
    if not who.role:
        return Verdict(False, "the client did not authenticate", is_known=False)
    improper = _improper(who, roles)
    if improper:
        return Verdict(False, improper)
    verdicts = [_decide_for(role, need, roles, grants, admins) for role in who.roles]
    refused = next((verdict for verdict in verdicts if not verdict.allowed), None)
    return refused or Verdict(True, ", and ".join(verdict.reason for verdict in verdicts))


def _improper(who: Principal, roles: Roles) -> str | None:
    """Return why a connection must not send requests for the client that it names; None if it may. A connection whose
    role is a proxy role has to name its client, and this must not be a proxy role. Any other connection must not name
    another role than its own.
    """
    original = who.original_role
    if who.role in roles.proxies:
        if not original:
            return f"proxy role {who.role!r} does not name its client"
        if original in roles.proxies:
            return f"proxy role {who.role!r} names another proxy role as its client, {original!r}"
    elif original and original != who.role:
        return f"role {who.role!r} is not a proxy role, but names {original!r} as its client"
    return None


def _decide_for(role: str, need: Need, roles: Roles, grants: Grants, admins: AbstractSet[str]) -> Verdict:
    if role in roles.super_users:
        return Verdict(True, f"{role!r} is a super user")
    if isinstance(need, Authenticated):
        return Verdict(True, f"{role!r} is authenticated")
    tenant = tenant_of(need)
    if tenant is None:
        return Verdict(False, f"{role!r} is not among superUserRoles")
    if role in admins:
        return Verdict(True, f"{role!r} administrates tenant {tenant}")
    nearest: str | None = None
    match need:
        case OfNamespace():
            nearest = _by_namespace(role, need, roles, grants)
        case OfTopic():
            excluded = _excluded(role, need, grants)
            if excluded:
                return Verdict(False, excluded)
            nearest = _by_topic(role, need, roles, grants)
    if nearest:
        return Verdict(True, nearest)
    return Verdict(False, _missing(role, need, grants, tenant))


def _by_namespace(role: str, need: OfNamespace, roles: Roles, grants: Grants) -> str | None:
    action = _granted(role, NAMESPACE_ACTIONS[need.operation], grants.namespace, roles)
    return action and f"{role!r} has {action} on namespace {need.namespace}"


def _by_topic(role: str, need: OfTopic, roles: Roles, grants: Grants) -> str | None:
    wanted = TOPIC_ACTIONS[need.operation]
    action = _granted(role, wanted, grants.namespace, roles)
    if action:
        return f"{role!r} has {action} on namespace {need.topic.namespace}"
    for name in names_of(need.topic):
        action = _granted(role, wanted, grants.topics.get(name, {}), roles)
        if action:
            return f"{role!r} has {action} on topic {name}"
    return None


def _granted(role: str, wanted: AbstractSet[AuthAction], granted: Actions, roles: Roles) -> str | None:
    """Return, as text, one of the `wanted` actions that is granted to a role, and the pattern that grants it if it is
    granted to a pattern; None if none of these actions is granted.
    """
    own = granted.get(role)
    action = _first_of(wanted, own) if own else None
    if action or not roles.allows_wildcards:
        return action
    for pattern, actions in granted.items():
        if _matches(role, pattern):
            action = _first_of(wanted, actions)
            if action:
                return f"{action} (as {pattern})"
    return None


def _first_of(wanted: AbstractSet[AuthAction], actions: AbstractSet[str]) -> str | None:
    return min((action for action in wanted if action in actions), default=None)


def _matches(role: str, pattern: str) -> bool:
    return (pattern.endswith("*") and role.startswith(pattern[:-1])) or (
        pattern.startswith("*") and role.endswith(pattern[1:])
    )


def _excluded(role: str, need: OfTopic, grants: Grants) -> str | None:
    """Return why a role must not use the subscription in `need`; None if it may, or if `need` names no subscription."""
    if not need.subscription or AuthAction.CONSUME not in TOPIC_ACTIONS[need.operation]:
        return None
    allowed = grants.subscriptions.get(need.subscription)
    if allowed and role not in allowed:
        return f"{role!r} is not among the roles of subscription {need.subscription!r}"
    if grants.subscription_auth_mode == PREFIX and not need.subscription.startswith(role):
        return f"the name of subscription {need.subscription!r} does not begin with {role!r} (subscription_auth_mode)"
    return None


def _missing(role: str, need: Need, grants: Grants, tenant: str) -> str:
    """Return a text that says which grant would give the right `need` to `role`."""
    if not grants.is_legible:
        return f"the stored grants cannot be decoded, and {role!r} does not administrate tenant {tenant}"
    wanted: frozenset[AuthAction] = _NONE
    where = ""
    match need:
        case OfNamespace():
            wanted, where = NAMESPACE_ACTIONS[need.operation], f"namespace {need.namespace}"
        case OfTopic():
            wanted, where = TOPIC_ACTIONS[need.operation], f"topic {need.topic} and on its namespace"
    if not wanted:
        return f"{role!r} does not administrate tenant {tenant}"
    return f"{role!r} has no {' or '.join(sorted(wanted))} on {where}"


def granted_by(operation: NamespaceOperation | TopicOperation) -> str:
    """Return, as text for the documentation, which clients may do an operation, in addition to super users."""
    if isinstance(operation, TopicOperation):
        actions, where = TOPIC_ACTIONS[operation], "the topic or its namespace"
    else:
        actions, where = NAMESPACE_ACTIONS[operation], "the namespace"
    administrators = "administrators of the tenant"
    return f"{administrators}; {' or '.join(sorted(actions))} on {where}" if actions else administrators
