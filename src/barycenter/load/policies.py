"""What a cluster's administrators demand of placement: isolation policies, failure domains, anti-affinity groups.

An isolation policy gives namespaces to some brokers and keeps those brokers for them. Regexes are Python's, with
ASCII classes, and match the whole text; Java's `\\Q…\\E` quotes. Those of brokers match the host of a broker id, an
IPv6 address with or without its brackets, and, if they hold a colon, also `host:port`, as Pulsar's newest releases do.

Worked example: `primary` is `["b-[12]"]`, `secondary` `["b-.*"]`, `min_limit` 1. While b-1 or b-2 lives, only they
serve the policy's namespaces, and nothing else. When both are gone b-3 and the others take over.

Free of numpy, as every broker reads policies.
Source: Pulsar's `NamespaceIsolationDataImpl`, `NamespaceIsolationPolicyImpl`, `NamespaceIsolationPolicies`,
`MinAvailablePolicy`, `FailureDomainImpl`. Unlike them, a `namespaces` regex that does not compile is refused at once.
"""

import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import Any, Final

import msgspec

UNLOAD_SCOPES: Final = ("all_matching", "changed", "none")
"""Which namespaces are unloaded when a policy is set; `changed` unless the policy says otherwise."""

DEFAULT_DOMAIN: Final = "default"
"""The failure domain of brokers that are in none."""

_MIN_AVAILABLE: Final = "min_available"
_QUOTED: Final = re.compile(r"\\Q(.*?)(?:\\E|$)", re.DOTALL)
_NO_PLAIN_TEXT: Final = re.compile(r"[.^$*+?{}\[\]\\|()]")
"""What a regex holds that does not simply match itself."""
_WHOLE_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,10}")
_REMEMBERED_NAMESPACES: Final = 200_000


class PolicyError(ValueError):
    """A policy cannot be what it is said to be; the text names the policy and the field."""

    def __init__(self, policy: str, problem: str) -> None:
        super().__init__(f"isolation policy {policy!r}: {problem}")
        self.policy = policy


class AutoFailoverData(msgspec.Struct, frozen=True):
    """When secondary brokers help out. `parameters` has `min_limit` and `usage_threshold`, as texts."""

    policy_type: str | None = None
    parameters: dict[str, str | int | float] | None = None


class NamespaceIsolationData(msgspec.Struct, frozen=True, omit_defaults=True):
    """An isolation policy as it is stored and sent, with Pulsar's JSON names; not checked yet."""

    namespaces: tuple[str, ...] | None = None
    primary: tuple[str, ...] | None = None
    secondary: tuple[str, ...] | None = None
    auto_failover_policy: AutoFailoverData | None = None
    unload_scope: str | None = None


class FailureDomain(msgspec.Struct, frozen=True):
    """The ids of brokers that fail together."""

    brokers: tuple[str, ...] = ()


class BrokerHosts:
    """What regexes of policies are matched with: the hosts of some brokers, told by their places.

    A regex is asked for once each host, and remembered.
    """

    def __init__(self, brokers: Sequence[str]) -> None:
        self._hosts: dict[str, list[int]] = {}
        self._with_ports: dict[str, list[int]] = {}
        self._found: dict[str, frozenset[int]] = {}
        for place, broker in enumerate(brokers):
            host = host_of_broker(broker)
            if host is None:
                continue
            port = broker[len(host) :]
            for name in (host, host[1:-1]) if host.startswith("[") and host.endswith("]") else (host,):
                self._hosts.setdefault(name, []).append(place)
                self._with_ports.setdefault(name + port, []).append(place)

    def matching(self, patterns: Iterable[re.Pattern[str]]) -> frozenset[int]:
        """Return the brokers that any of `patterns` matches."""
        return frozenset().union(*map(self._matching, patterns))

    def _matching(self, pattern: re.Pattern[str]) -> frozenset[int]:
        text = pattern.pattern
        found = self._found.get(text)
        if found is None:
            names = [self._hosts, self._with_ports] if ":" in text else [self._hosts]
            if _NO_PLAIN_TEXT.search(text):
                rows = [rows for known in names for name, rows in known.items() if pattern.fullmatch(name)]
            else:
                rows = [known[text] for known in names if text in known]
            found = self._found[text] = frozenset(chain.from_iterable(rows))
        return found


@dataclass(frozen=True, slots=True)
class IsolationPolicy:
    """One checked policy. `min_limit`: with fewer live primary brokers than this the secondary ones help out."""

    name: str
    namespaces: tuple[re.Pattern[str], ...]
    primary: tuple[re.Pattern[str], ...]
    secondary: tuple[re.Pattern[str], ...]
    min_limit: int
    unload_scope: str

    @staticmethod
    def of(name: str, data: NamespaceIsolationData) -> "IsolationPolicy":
        """Check a policy.

        Raises:
            PolicyError: something is missing or makes no sense.
        """
        if not data.namespaces or not data.primary:
            missing = "primary" if data.namespaces else "namespaces"
            raise PolicyError(name, f"{missing} is empty: name at least one regular expression")
        if data.unload_scope not in (None, *UNLOAD_SCOPES):
            raise PolicyError(name, f"unload_scope is {data.unload_scope!r}: use one of {', '.join(UNLOAD_SCOPES)}")
        return IsolationPolicy(
            name,
            _compiled(name, "namespaces", data.namespaces),
            _compiled(name, "primary", data.primary),
            _compiled(name, "secondary", data.secondary or ()),
            _min_limit(name, data.auto_failover_policy),
            data.unload_scope or "changed",
        )

    def covers(self, namespace: str) -> bool:
        """Tell whether the policy is for `tenant/namespace`."""
        return any(pattern.fullmatch(namespace) for pattern in self.namespaces)

    def is_primary(self, broker_id: str) -> bool:
        return bool(BrokerHosts((broker_id,)).matching(self.primary))

    def is_secondary(self, broker_id: str) -> bool:
        """Tell whether the broker is secondary, whether or not it is primary too; primary counts more."""
        return bool(BrokerHosts((broker_id,)).matching(self.secondary))


@dataclass(frozen=True, eq=False)
class IsolationPolicies:
    """The policies of a cluster in the order of its stored map: of several that cover a namespace the first counts."""

    policies: tuple[IsolationPolicy, ...] = ()
    _found: dict[str, IsolationPolicy | None] = field(default_factory=dict, repr=False)

    def __bool__(self) -> bool:
        return bool(self.policies)

    @staticmethod
    def decode(stored: Mapping[str, Any]) -> "tuple[IsolationPolicies, tuple[PolicyError, ...]]":
        """Return the policies of a stored map, and why others of it were left out."""
        found, errors = [], []
        for name, value in stored.items():
            try:
                found.append(IsolationPolicy.of(name, isolation_data(name, value)))
            except PolicyError as error:
                errors.append(error)
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
        joined, of_group, alone = self._covering
        found = joined.fullmatch(namespace)
        place = of_group[found.lastindex - 1] if found and found.lastindex else len(self.policies)
        place = next((each for each in alone if each < place and self.policies[each].covers(namespace)), place)
        return self.policies[place] if place < len(self.policies) else None

    @cached_property
    def _covering(self) -> tuple[re.Pattern[str], list[int], list[int]]:
        """One regex with a group for each policy whose regexes can be joined, the places of those, and of the others.

        It takes the first of its groups that matches, without a call for each policy.
        """
        can = [all(map(_can_be_joined, policy.namespaces)) for policy in self.policies]
        joined = [place for place, is_joined in enumerate(can) if is_joined]
        groups = ("|".join(f"(?:{each.pattern})" for each in self.policies[place].namespaces) for place in joined)
        return (
            re.compile("|".join(f"({group})" for group in groups), re.ASCII),
            joined,
            [place for place, is_joined in enumerate(can) if not is_joined],
        )

    @cached_property
    def primary(self) -> tuple[re.Pattern[str], ...]:
        """What brokers match that are primary in some policy; all others serve namespaces without policy."""
        return _joined([pattern for policy in self.policies for pattern in policy.primary])


@dataclass(frozen=True, eq=False)
class ClusterPolicies:
    """All that placement has to respect.

    `domains` maps broker id to failure domain. `groups` maps namespace to its anti-affinity group, folded by
    `group_key`; it holds at least the namespaces that were asked for, and none without a group.
    """

    isolation: IsolationPolicies = field(default_factory=IsolationPolicies)
    domains: Mapping[str, str] = field(default_factory=dict)
    groups: Mapping[str, str] = field(default_factory=dict)

    def domain_of(self, broker_id: str) -> str:
        return self.domains.get(broker_id, DEFAULT_DOMAIN)

    def members_of(self, namespace: str) -> tuple[str, ...] | None:
        """Return the namespaces known to be in the anti-affinity group of this one; None: it is in no group."""
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
    """Return a policy of what JSON holds of it.

    Raises:
        PolicyError: a field is not of its type.
    """
    try:
        return msgspec.convert(value, NamespaceIsolationData)
    except msgspec.ValidationError as error:
        raise PolicyError(name, str(error)) from error


def stored_form(data: NamespaceIsolationData) -> dict[str, Any]:
    """Return a policy as it is stored: every list there, parameters as texts."""
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
    """Return which of the cluster's `namespaces` are to be placed again when `policy` takes the place of `before`.

    `all_matching`: those that either covers. `changed`: the same if other primary brokers are named, in whatever
    order, else those of regexes that only one of the two has. `none`: nobody. Both policies have been checked.
    Source: `ClustersBase.filterAndUnloadMatchedNamespaceAsync`.
    """
    if policy.unload_scope == "none":
        return []
    new, old = set(policy.namespaces or ()), set(before.namespaces or () if before else ())
    moved = before is not None and sorted(before.primary or ()) != sorted(policy.primary or ())
    regexes = new | old if moved or policy.unload_scope == "all_matching" else new ^ old
    patterns = [compile_regex(text) for text in sorted(regexes)]
    return [name for name in namespaces if any(pattern.fullmatch(name) for pattern in patterns)]


def domains_of_brokers(domains: Mapping[str, FailureDomain]) -> dict[str, str]:
    """Return broker id to failure domain; a broker that stands in several is in the last by name."""
    return {broker: name for name in sorted(domains) for broker in domains[name].brokers}


def group_key(group: str | None) -> str | None:
    """Return what anti-affinity groups are compared by: the text without regard to case; None for no group."""
    if group is None or not group.strip():
        return None
    return "".join(map(_folded, group))


def _folded(character: str) -> str:
    """Return the character as Java compares it ignoring case: one upper-case character, if there is one, then lower."""
    upper = character.upper()
    return (upper if len(upper) == 1 else character).lower()[0]


def host_of_broker(broker_id: str) -> str | None:
    """Return the host of `host:port`, an IPv6 address with the brackets it is written with; None without a port."""
    host, colon, _ = broker_id.rpartition(":")
    return host if colon else None


def compile_regex(text: str) -> re.Pattern[str]:
    """Compile a regex of a policy.

    Raises:
        re.error: it is none.
    """
    quoted = _QUOTED.sub(lambda found: re.escape(found[1]), text)
    with warnings.catch_warnings():
        warnings.simplefilter("error", FutureWarning)  # Python's warning of sets of sets, which it does not find all
        try:
            if not _has_nested_set(quoted):
                return re.compile(quoted, re.ASCII)
        except FutureWarning:
            pass
    raise re.error("sets within or beside sets are read differently by Java and not supported", text)


def _has_nested_set(regex: str) -> bool:
    in_set = is_escaped = False
    for character in regex:
        if not is_escaped and character == "[":
            if in_set:
                return True
            in_set = True
        elif not is_escaped and character == "]":
            in_set = False
        is_escaped = character == "\\" and not is_escaped
    return False


def _compiled(policy: str, field_name: str, texts: Iterable[str]) -> tuple[re.Pattern[str], ...]:
    patterns = []
    for text in texts:
        try:
            patterns.append(compile_regex(text))
        except (re.error, OverflowError, RecursionError) as error:
            raise PolicyError(policy, f"{field_name} has no regular expression in {text!r}: {error}") from error
    return tuple(patterns)


def _joined(patterns: Sequence[re.Pattern[str]]) -> tuple[re.Pattern[str], ...]:
    """Return regexes that match what any of `patterns` does, few where they can be joined, since that is far quicker.

    Those with a colon, which are matched with ports, stay alone, too.
    """
    can = [_can_be_joined(each) and ":" not in each.pattern for each in patterns]
    alone = [each for each, is_joined in zip(patterns, can, strict=True) if not is_joined]
    others = "|".join(f"(?:{each.pattern})" for each, is_joined in zip(patterns, can, strict=True) if is_joined)
    return (*alone, *((re.compile(others, re.ASCII),) if others else ()))


def _can_be_joined(pattern: re.Pattern[str]) -> bool:
    """Tell whether a regex means the same as a part of another: groups may be referred to by number."""
    return not pattern.groups and "(?" not in pattern.pattern


def _min_limit(policy: str, data: AutoFailoverData | None) -> int:
    """Return the `min_limit` of a failover policy whose two parameters are whole numbers."""
    if data is None or data.policy_type is None:
        raise PolicyError(policy, f"auto_failover_policy is missing: its policy_type is {_MIN_AVAILABLE!r}")
    if data.policy_type != _MIN_AVAILABLE:
        raise PolicyError(policy, f"policy_type is {data.policy_type!r}: only {_MIN_AVAILABLE!r} is known")
    numbers = []
    for key in ("min_limit", "usage_threshold"):
        text = str((data.parameters or {}).get(key, ""))
        if not (_WHOLE_NUMBER.fullmatch(text) and -(2**31) <= int(text) < 2**31):
            raise PolicyError(policy, f"auto_failover_policy.parameters.{key} is {text!r}: give a whole number")
        numbers.append(int(text))
    return numbers[0]
