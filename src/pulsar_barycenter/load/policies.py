"""The rules of administrators for placement: isolation policies, failure domains, anti-affinity groups and drained
brokers.

An isolation policy assigns namespaces to some brokers and reserves these brokers for them. Its regexes are those of
`regexes`. Regexes of brokers match the host of a broker id, an IPv6 address with or without its brackets; if they
contain a colon, they also match `host:port`, as in Pulsar's newest releases.

Worked example: `primary` is `["b-[12]"]`, `secondary` `["b-.*"]`, `min_limit` 1. While b-1 or b-2 lives, only they
serve the policy's namespaces, and they serve no others. When both are gone, b-3 and the others take over.

Needs no numpy, because every broker reads policies.
Source: Pulsar's `NamespaceIsolationDataImpl`, `NamespaceIsolationPolicyImpl`, `NamespaceIsolationPolicies`,
`MinAvailablePolicy`, `FailureDomainImpl`. Unlike them, a `namespaces` regex that does not compile is refused at once.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import msgspec

from pulsar_barycenter.load.regexes import MAX_STEPS, RegexError, RegexSet, check_regex

UNLOAD_SCOPES: Final = ("all_matching", "changed", "none")
"""Which namespaces are unloaded when a policy is set; `changed` by default."""

DEFAULT_DOMAIN: Final = "default"
"""The failure domain of brokers that are in no other."""

DRAINED_KEY: Final = "barycenterDrainedBrokers"
"""The dynamic setting that names drained brokers."""

_MIN_AVAILABLE: Final = "min_available"
_WHOLE_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,10}")
_REMEMBERED_NAMESPACES: Final = 200_000


class PolicyError(ValueError):
    """A policy is invalid; the text names the policy, the field and the problem."""

    def __init__(self, policy: str, problem: str) -> None:
        super().__init__(f"isolation policy {policy!r}: {problem}")
        self.policy = policy


def drained_names(text: str) -> tuple[str, ...]:
    """Return the brokers that `text`, a value of DRAINED_KEY, names, in their order there."""
    return tuple(name for name in (piece.strip() for piece in text.split(",")) if name)


def drained_text(brokers: Collection[str]) -> str:
    """Return the value of DRAINED_KEY that names these brokers: a single comma for no broker, because a blank value
    cannot be set.
    """
    return ",".join(brokers) or ","


class AutoFailoverData(msgspec.Struct, frozen=True):
    """The rule of an isolation policy for when secondary brokers are used as well. `parameters` has `min_limit` and
    `usage_threshold`, as texts.
    """

    policy_type: str | None = None
    parameters: dict[str, str | int | float] | None = None


class NamespaceIsolationData(msgspec.Struct, frozen=True, omit_defaults=True):
    """An isolation policy as it is stored and sent, with Pulsar's JSON names; its values are not yet checked."""

    namespaces: tuple[str, ...] | None = None
    primary: tuple[str, ...] | None = None
    secondary: tuple[str, ...] | None = None
    auto_failover_policy: AutoFailoverData | None = None
    unload_scope: str | None = None


class FailureDomain(msgspec.Struct, frozen=True):
    """A failure domain: the ids of brokers that are expected to fail together."""

    brokers: tuple[str, ...] = ()


class BrokerHosts:
    """The hosts of some brokers, with which the regexes of isolation policies are matched. A regex with a colon is also
    matched with `host:port`. A broker is given by its position in the sequence that the constructor received.

    At the first use, all regexes are matched together, once with each host.
    """

    def __init__(self, brokers: Sequence[str], regexes: Iterable[str]) -> None:
        self._regexes = tuple(dict.fromkeys(regexes))
        self._hosts: dict[str, list[int]] = {}
        self._with_ports: dict[str, list[int]] = {}
        for place, broker in enumerate(brokers):
            host = host_of_broker(broker)
            if host is None:
                continue
            port = broker[len(host) :]
            for name in (host, host[1:-1]) if host.startswith("[") and host.endswith("]") else (host,):
                self._hosts.setdefault(name, []).append(place)
                self._with_ports.setdefault(name + port, []).append(place)

    def matching(self, regexes: Iterable[str]) -> frozenset[int]:
        """Return the positions of the brokers that match any of `regexes`. These regexes must be among those that the
        constructor received.
        """
        return frozenset().union(*(self._found.get(regex, ()) for regex in regexes))

    @cached_property
    def _found(self) -> dict[str, set[int]]:
        found: dict[str, set[int]] = {}
        with_colon = tuple(regex for regex in self._regexes if ":" in regex)
        for regexes, names in ((self._regexes, self._hosts), (with_colon, self._with_ports)):
            together = RegexSet(regexes)
            for name, rows in names.items() if regexes else ():
                for place in together.matching(name):
                    found.setdefault(regexes[place], set()).update(rows)
        return found


@dataclass(frozen=True, slots=True)
class IsolationPolicy:
    """A checked isolation policy. With fewer than `min_limit` live primary brokers the secondary ones are used as well.

    Namespaces and brokers are regexes, as the user wrote them. `steps` is the size of all these regexes together (see
    `check_regex`).
    """

    name: str
    namespaces: tuple[str, ...]
    primary: tuple[str, ...]
    secondary: tuple[str, ...]
    min_limit: int
    unload_scope: str
    steps: int = 0

    @staticmethod
    def of(name: str, data: NamespaceIsolationData, room: int = MAX_STEPS) -> "IsolationPolicy":
        """Return the checked policy `name` made of `data`. All its regexes together may have at most `room` steps (see
        `check_regex`).

        Raises:
            PolicyError: something is missing or invalid, or the regexes are too large.
        """
        if not data.namespaces or not data.primary:
            missing = "primary" if data.namespaces else "namespaces"
            raise PolicyError(name, f"{missing} is empty: name at least one regular expression")
        if data.unload_scope not in (None, *UNLOAD_SCOPES):
            raise PolicyError(name, f"unload_scope is {data.unload_scope!r}: use one of {', '.join(UNLOAD_SCOPES)}")
        steps = 0
        for field_name in ("namespaces", "primary", "secondary"):
            steps += _steps(name, field_name, getattr(data, field_name) or (), room - steps)
        min_limit = _min_limit(name, data.auto_failover_policy)
        lists = data.namespaces, data.primary, data.secondary or ()
        return IsolationPolicy(name, *lists, min_limit, data.unload_scope or "changed", steps)

    def is_primary(self, broker_id: str) -> bool:
        return bool(BrokerHosts((broker_id,), self.primary).matching(self.primary))

    def is_secondary(self, broker_id: str) -> bool:
        """Return whether a regex for secondary brokers matches the broker. The result does not say whether the broker
        is also primary; a broker that is both counts as primary.
        """
        return bool(BrokerHosts((broker_id,), self.secondary).matching(self.secondary))


@dataclass(frozen=True, eq=False)
class IsolationPolicies:
    """The isolation policies of a cluster, in the order of the stored map; for a namespace the first policy counts that
    matches it.
    """

    policies: tuple[IsolationPolicy, ...] = ()
    _found: dict[str, IsolationPolicy | None] = field(default_factory=dict, repr=False)

    def __bool__(self) -> bool:
        return bool(self.policies)

    @staticmethod
    def decode(stored: Mapping[str, Any]) -> "tuple[IsolationPolicies, tuple[PolicyError, ...]]":
        """Return the valid isolation policies in `stored`, the map of the metadata store, and the errors of the invalid
        ones.
        """
        found, errors, room = [], [], MAX_STEPS
        for name, value in stored.items():
            try:
                policy = IsolationPolicy.of(name, isolation_data(name, value), room)
            except PolicyError as error:
                errors.append(error)
            else:
                found.append(policy)
                room -= policy.steps
        return IsolationPolicies(tuple(found)), tuple(errors)

    def of_namespace(self, namespace: str) -> IsolationPolicy | None:
        if not self.policies:
            return None
        if namespace not in self._found:
            if len(self._found) >= _REMEMBERED_NAMESPACES:
                self._found.clear()
            self._found[namespace] = self._first_covering(namespace)
        return self._found[namespace]

    def _first_covering(self, namespace: str) -> IsolationPolicy | None:
        regexes, owners = self._namespaces
        found = regexes.matching(namespace)
        return owners[found[0]] if found else None

    @cached_property
    def _namespaces(self) -> tuple[RegexSet, list[IsolationPolicy]]:
        """The regexes of the namespaces of all policies, in the order of the policies, and for each regex its
        policy.
        """
        pairs = [(regex, policy) for policy in self.policies for regex in policy.namespaces]
        return RegexSet(regex for regex, _ in pairs), [policy for _, policy in pairs]

    @cached_property
    def primary(self) -> tuple[str, ...]:
        """The regexes for primary brokers of all policies. A namespace without policy is served by the brokers that
        none of these regexes matches.
        """
        return tuple(dict.fromkeys(regex for policy in self.policies for regex in policy.primary))

    def hosts(self, brokers: Sequence[str]) -> BrokerHosts:
        """Return the hosts of `brokers`, to match with the regexes of any policy."""
        regexes = (regex for policy in self.policies for regex in (*policy.primary, *policy.secondary))
        return BrokerHosts(brokers, regexes)


@dataclass(frozen=True, eq=False)
class ClusterPolicies:
    """The rules of administrators that placement has to follow.

    `domains` maps broker id to failure domain. `groups` maps namespace to its anti-affinity group, normalized by
    `group_key`. It need not contain all namespaces of the cluster, but it has those for which the caller asked, as far
    as they have a group. `drained` are the ids of brokers that get bundles only if no other broker may serve them.
    """

    isolation: IsolationPolicies = field(default_factory=IsolationPolicies)
    domains: Mapping[str, str] = field(default_factory=dict)
    groups: Mapping[str, str] = field(default_factory=dict)
    drained: frozenset[str] = frozenset()

    @property
    def narrows(self) -> bool:
        """Whether isolation policies or drained brokers can exclude a broker from placement."""
        return bool(self.isolation) or bool(self.drained)

    def domain_of(self, broker_id: str) -> str:
        return self.domains.get(broker_id, DEFAULT_DOMAIN)

    def members_of(self, namespace: str) -> tuple[str, ...] | None:
        """Return those namespaces in `groups` that are in the same anti-affinity group as `namespace`, itself included.
        None: `namespace` has no group.
        """
        group = self.groups.get(namespace)
        return None if group is None else self._members[group]

    @cached_property
    def _members(self) -> dict[str, tuple[str, ...]]:
        found: dict[str, list[str]] = {}
        for namespace in sorted(self.groups):
            found.setdefault(self.groups[namespace], []).append(namespace)
        return {group: tuple(namespaces) for group, namespaces in found.items()}


NO_POLICIES: Final = ClusterPolicies()


def isolation_data(name: str, value: Any) -> NamespaceIsolationData:
    """Return an isolation policy from its decoded JSON.

    Raises:
        PolicyError: a field has the wrong type.
    """
    try:
        return msgspec.convert(value, NamespaceIsolationData)
    except msgspec.ValidationError as error:
        raise PolicyError(name, str(error)) from error


def stored_form(data: NamespaceIsolationData) -> dict[str, Any]:
    """Return an isolation policy as the dict that is stored: all lists are present, also empty ones, and parameters are
    texts.
    """
    failover = data.auto_failover_policy or AutoFailoverData()
    form: dict[str, Any] = {
        "namespaces": list(data.namespaces or ()),
        "primary": list(data.primary or ()),
        "secondary": list(data.secondary or ()),
        "auto_failover_policy": {
            "policy_type": failover.policy_type,
            "parameters": {key: str(value) for key, value in (failover.parameters or {}).items()},
        },
    }
    return form if data.unload_scope is None else {**form, "unload_scope": data.unload_scope}


def namespaces_to_unload(
    namespaces: Iterable[str], policy: NamespaceIsolationData, before: NamespaceIsolationData | None
) -> list[str]:
    """Return which of the cluster's `namespaces` must be placed again when `policy` replaces `before`; None: there was
    no policy before.

    The policy's `unload_scope` decides. `all_matching`: the namespaces that either policy matches. `changed`: the same
    if the two policies name different primary brokers (the order does not matter), else the namespaces that only one of
    the two policies matches. `none`: no namespace. Both policies have been checked. Source:
    `ClustersBase.filterAndUnloadMatchedNamespaceAsync`.
    """
    if policy.unload_scope == "none":
        return []
    new, old = set(policy.namespaces or ()), set(before.namespaces or () if before else ())
    moved = before is not None and sorted(before.primary or ()) != sorted(policy.primary or ())
    regexes = new | old if moved or policy.unload_scope == "all_matching" else new ^ old
    together = RegexSet(sorted(regexes))
    return [name for name in namespaces if together.matching(name)]


def domains_of_brokers(domains: Mapping[str, FailureDomain]) -> dict[str, str]:
    """Return the failure domain of each broker id; a broker in several domains belongs to the last one by name."""
    return {broker: name for name in sorted(domains) for broker in domains[name].brokers}


def group_key(group: str | None) -> str | None:
    """Return the key by which anti-affinity groups are compared: the same for names that differ only in upper and lower
    case. None: no group.
    """
    if group is None or not group.strip():
        return None
    return "".join(map(_folded, group))


def _folded(character: str) -> str:
    """Return the character in the form in which Java compares texts without case: converted to upper case, if the
    result is one character, and then to lower case.
    """
    upper = character.upper()
    return (upper if len(upper) == 1 else character).lower()[0]


def host_of_broker(broker_id: str) -> str | None:
    """Return the host of a broker id `host:port`, an IPv6 address with its brackets; None if the id has no port."""
    host, colon, _ = broker_id.rpartition(":")
    return host if colon else None


def _steps(policy: str, field_name: str, texts: Iterable[str], room: int) -> int:
    """Check the regexes `texts` and return the sum of their sizes in steps (see `check_regex`).

    Raises:
        PolicyError: a regex is not valid, or the sum is above `room`.
    """
    steps = 0
    for text in texts:
        try:
            steps += check_regex(text)
        except RegexError as error:
            raise PolicyError(policy, f"{field_name}: {text!r} is not a valid regular expression: {error}") from error
        if steps > room:
            problem = "the regexes of all policies together are too long for a broker"
            raise PolicyError(policy, f"{field_name}: {problem}: use fewer regexes, or fewer repetitions")
    return steps


def _min_limit(policy: str, data: AutoFailoverData | None) -> int:
    """Return the `min_limit` of a failover policy. Both its parameters, `min_limit` and `usage_threshold`, must be
    whole numbers.

    Raises:
        PolicyError: the failover policy is missing, has an unknown type, or a parameter is not a whole number.
    """
    if data is None or data.policy_type is None:
        raise PolicyError(policy, f"auto_failover_policy is missing: set it, with the policy_type {_MIN_AVAILABLE!r}")
    if data.policy_type != _MIN_AVAILABLE:
        raise PolicyError(
            policy, f"policy_type is {data.policy_type!r}: set it to {_MIN_AVAILABLE!r}, the only known one"
        )
    numbers = []
    for key in ("min_limit", "usage_threshold"):
        text = str((data.parameters or {}).get(key, ""))
        if not (_WHOLE_NUMBER.fullmatch(text) and -(2**31) <= int(text) < 2**31):
            raise PolicyError(policy, f"auto_failover_policy.parameters.{key} is {text!r}: give a whole number")
        numbers.append(int(text))
    return numbers[0]
