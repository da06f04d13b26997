"""Reads and changes the permissions in a namespace's policies.

The field `auth_policies` has Pulsar's JSON: `namespace_auth` (role → actions), `destination_auth` (topic → role →
actions) and `subscription_auth_roles` (subscription → roles). The field `subscription_auth_mode` is next to it.
Source: Pulsar's `AuthPolicies` and `PulsarAuthorizationProvider`.
"""

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from pulsar_barycenter.naming.errors import InvalidNameError
from pulsar_barycenter.naming.topic import TopicName

PREFIX: Final = "Prefix"
SUBSCRIPTION_AUTH_MODES: Final = ("None", PREFIX)

LONGEST_ROLE: Final = 1_000
"""The maximum number of characters of a role in a grant."""

MOST_GRANTS: Final = 20_000
"""The maximum number of roles in the permissions of a namespace: those of itself, its topics and its subscriptions
together.
"""

Actions = Mapping[str, AbstractSet[str]]
"""The actions that each role may do."""


class TooManyGrantsError(ValueError):
    def __init__(self) -> None:
        super().__init__(
            f"A namespace has at most {MOST_GRANTS} grants: revoke some, or grant to a role that many share"
        )


class NotGrantedError(LookupError):
    """The permission to revoke was never granted; the message says which one."""


class _AuthPolicies(msgspec.Struct):
    namespace_auth: dict[str, list[str] | None] | None = None
    destination_auth: dict[str, dict[str, list[str] | None] | None] | None = None
    subscription_auth_roles: dict[str, list[str] | None] | None = None


@dataclass(frozen=True, slots=True)
class Grants:
    """The permissions of a namespace, in the form in which the rules of authorization read them.

    `is_legible` is False if the stored permissions cannot be decoded. Then there are no grants, and requests that need
    a grant are refused.
    """

    namespace: Actions = field(default_factory=dict)
    topics: Mapping[str, Actions] = field(default_factory=dict)
    subscriptions: Mapping[str, AbstractSet[str]] = field(default_factory=dict)
    subscription_auth_mode: str = "None"
    is_legible: bool = True


NO_GRANTS: Final = Grants()
"""The grants of a namespace that does not exist."""


def read_grants(auth_policies: Any, subscription_auth_mode: Any) -> Grants:
    """Decode the permissions in a namespace's policies, and return them as grants. If they cannot be decoded, no error
    is raised: the result has `is_legible` False.
    """
    try:
        stored = msgspec.convert(auth_policies or {}, _AuthPolicies)
    except msgspec.ValidationError:
        return Grants(is_legible=False)
    mode = subscription_auth_mode or "None"
    if mode not in SUBSCRIPTION_AUTH_MODES:
        return Grants(is_legible=False)
    return Grants(
        _sets(stored.namespace_auth),
        {topic: _sets(roles) for topic, roles in (stored.destination_auth or {}).items()},
        _sets(stored.subscription_auth_roles),
        mode,
    )


def _sets(lists: Mapping[str, list[str] | None] | None) -> dict[str, frozenset[str]]:
    return {name: frozenset(values or ()) for name, values in (lists or {}).items()}


# ---- changes: each takes the stored auth_policies and returns a changed copy; other fields stay ----


def grant(auth_policies: Any, role: str, actions: Iterable[str]) -> dict[str, Any]:
    """Return a copy of the namespace's permissions, in which `role` has exactly `actions` in the whole namespace;
    actions that the role had there before are removed. `auth_policies` are the stored permissions.

    Raises:
        TooManyGrantsError: the namespace would have more than MOST_GRANTS roles.
    """
    changed = _legible(auth_policies)
    changed["namespace_auth"][role] = sorted(set(actions))
    return _counted(changed)


def revoke(auth_policies: Any, role: str) -> dict[str, Any]:
    """Return a copy of the namespace's permissions, in which `role` has no actions in the namespace as a whole; its
    grants on single topics stay. It is no error if the role had none.
    """
    changed = _legible(auth_policies)
    changed["namespace_auth"].pop(role, None)
    return changed


def grant_on_topic(auth_policies: Any, topic: TopicName, role: str, actions: Iterable[str]) -> dict[str, Any]:
    """Return a copy of the namespace's permissions, in which `role` has exactly `actions` on `topic`, and so on all its
    partitions; actions that the role had on this topic before are removed. `auth_policies` are the stored permissions.

    Raises:
        TooManyGrantsError: the namespace would have more than MOST_GRANTS roles.
    """
    changed = _legible(auth_policies)
    roles = changed["destination_auth"].get(str(topic)) or {}
    changed["destination_auth"][str(topic)] = {**roles, role: sorted(set(actions))}
    return _counted(changed)


def revoke_on_topic(auth_policies: Any, topic: TopicName, role: str) -> dict[str, Any]:
    """Return a copy of the namespace's permissions, in which `role` has no actions on `topic` and on its partitions.
    The partitions are included because Pulsar stores a grant for each partition.

    Raises:
        NotGrantedError: the role has no grant on the topic, nor on one of its partitions.
    """
    changed = _legible(auth_policies)
    by_topic = changed["destination_auth"]
    held = [name for name in _names_with_grants(changed, topic) if role in (by_topic[name] or {})]
    if not held:
        raise NotGrantedError("Permissions are not set at the topic level")
    for name in held:
        left = {of: actions for of, actions in by_topic[name].items() if of != role}
        if left:
            by_topic[name] = left
        else:
            del by_topic[name]
    return changed


def has_grants_of(auth_policies: Any, topic: TopicName) -> bool:
    """Return whether there is a grant on a topic or on one of its partitions."""
    return bool(_names_with_grants(_legible(auth_policies), topic))


def forget_topic(auth_policies: Any, topic: TopicName) -> dict[str, Any]:
    """Return a copy of the namespace's permissions without all grants on a deleted topic and its partitions, so that a
    later topic with the same name does not get them.
    """
    changed = _legible(auth_policies)
    for name in _names_with_grants(changed, topic):
        del changed["destination_auth"][name]
    return changed


def grant_on_subscription(auth_policies: Any, subscription: str, roles: Iterable[str]) -> dict[str, Any]:
    """Return a copy of the namespace's permissions, in which exactly `roles` may use a subscription, on all topics of
    the namespace. The roles that were stored for it before are removed. If `roles` is empty, every role may use it.

    Raises:
        TooManyGrantsError: the namespace would have more than MOST_GRANTS roles.
    """
    changed = _legible(auth_policies)
    changed["subscription_auth_roles"][subscription] = sorted(set(roles))
    return _counted(changed)


def revoke_on_subscription(auth_policies: Any, subscription: str, role: str) -> dict[str, Any]:
    """Return a copy of the namespace's permissions, in which `role` is removed from the roles that may use a
    subscription. After the last role is removed, every role may use it, as in Pulsar.

    Raises:
        NotGrantedError: the subscription is not restricted to roles.
    """
    changed = _legible(auth_policies)
    roles = changed["subscription_auth_roles"].get(subscription)
    if roles is None:
        raise NotGrantedError(f"No roles are set for subscription {subscription!r}")
    changed["subscription_auth_roles"][subscription] = [other for other in roles if other != role]
    return changed


def permissions_at(grants: Grants, topic: TopicName) -> dict[str, list[str]]:
    """Return, for each role, the actions that it has on a topic: those granted on the namespace, on the topic, and on
    its partitioned topic, together. Roles and actions are sorted by name.
    """
    found: dict[str, set[str]] = {}
    for roles in (grants.namespace, *(grants.topics.get(name, {}) for name in names_of(topic))):
        for role, actions in roles.items():
            found.setdefault(role, set()).update(actions)
    return {role: sorted(actions) for role, actions in sorted(found.items())}


def names_of(topic: TopicName) -> tuple[str, ...]:
    """Return the names under which grants on a topic are stored: the name of the topic, and, if it is a partition, also
    the name of its partitioned topic.
    """
    return (str(topic), str(topic.partitioned_name)) if topic.is_partition else (str(topic),)


def _legible(auth_policies: Any) -> dict[str, Any]:
    """Return a copy of a namespace's stored permissions, which the caller may change. If they cannot be decoded, they
    grant nothing, and the copy is empty.
    """
    try:
        msgspec.convert(auth_policies or {}, _AuthPolicies)
    except msgspec.ValidationError:
        auth_policies = {}
    changed = dict(auth_policies or {})
    for name in ("namespace_auth", "destination_auth", "subscription_auth_roles"):
        changed[name] = dict(changed.get(name) or {})
    return changed


def _counted(auth_policies: dict[str, Any]) -> dict[str, Any]:
    lists = (auth_policies["namespace_auth"], *(roles or {} for roles in auth_policies["destination_auth"].values()))
    of_subscriptions = sum(len(roles or ()) for roles in auth_policies["subscription_auth_roles"].values())
    if sum(map(len, lists)) + of_subscriptions > MOST_GRANTS:
        raise TooManyGrantsError
    return auth_policies


def _names_with_grants(auth_policies: dict[str, Any], topic: TopicName) -> list[str]:
    """Return those names for which grants are stored, out of the topic's own name and the names of its partitions."""
    return [name for name in auth_policies["destination_auth"] if name == str(topic) or _is_partition_of(name, topic)]


def _is_partition_of(name: str, topic: TopicName) -> bool:
    if not name.startswith(f"{topic}-partition-"):
        return False
    try:
        parsed = TopicName.parse(name)
    except InvalidNameError:
        return False
    return parsed.is_partition and parsed.partitioned_name == topic
