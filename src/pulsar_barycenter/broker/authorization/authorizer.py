"""Checks requests before they are served: reads the stored grants and applies the rules.

Grants and administrators are read through the caches of `Resources`, so a change has an effect as soon as this broker
gets the notification of it. If the grants cannot be read, the request is not allowed: the error of the store is raised.
"""

from collections.abc import Iterable
from typing import Final

from pulsar_barycenter.bounds.recent import Recent
from pulsar_barycenter.broker.access.principal import Principal
from pulsar_barycenter.broker.authorization.errors import AccessDeniedError, NotAuthenticatedError
from pulsar_barycenter.broker.authorization.grants import NO_GRANTS, Grants, read_grants
from pulsar_barycenter.broker.authorization.needs import Need, namespace_of, tenant_of
from pulsar_barycenter.broker.authorization.refusals import Refusals
from pulsar_barycenter.broker.authorization.rules import Roles, Verdict, decide
from pulsar_barycenter.broker.cluster.dynamic_configuration import ConfigHolder
from pulsar_barycenter.broker.namespaces.policies import Policies
from pulsar_barycenter.broker.namespaces.resources import Resources
from pulsar_barycenter.metadata.clock import Clock
from pulsar_barycenter.naming.namespace import NamespaceName

_MAX_CACHED: Final = 10_000
"""The maximum number of namespaces whose decoded grants are cached."""


class Authorizer:
    """Decides which requests the clients of one broker may send. While `authorizationEnabled` is false, `require`
    accepts every request.
    """

    def __init__(self, config: ConfigHolder, resources: Resources, clock: Clock) -> None:
        self._config = config
        self._resources = resources
        self._cached: Recent[NamespaceName, tuple[Policies, Grants]] = Recent(_MAX_CACHED)
        self.refusals = Refusals(lambda: clock.now_ms() / 1000)
        now = config.current
        self._roles = Roles(
            frozenset(now.super_user_roles), frozenset(now.proxy_roles), now.authorization_allow_wildcards_matching
        )

    @property
    def is_enabled(self) -> bool:
        return self._config.current.authorization_enabled

    async def require(self, who: Principal, needs: Iterable[Need], *, address: str, request: str) -> None:
        """Check that `who` has every right in `needs`; return without an error if so, or if `authorizationEnabled` is
        false. A refusal is logged, with `address` and `request`.

        Raises:
            NotAuthenticatedError: the client did not authenticate.
            AccessDeniedError: `who` lacks a right.
            MetadataError: the grants could not be read.
        """
        if not self.is_enabled:
            return
        for need in needs:
            verdict = await self.verdict(who, need)
            if not verdict.allowed:
                reason = verdict.reason
                self.refusals.add(who, need, address=address, request=request, reason=reason)
                raise AccessDeniedError(need) if verdict.is_known else NotAuthenticatedError

    async def verdict(self, who: Principal, need: Need) -> Verdict:
        """Return whether `who` has the right `need`, and why. While `authorizationEnabled` is false, the result is the
        same as if it were true.

        Raises:
            MetadataError: the grants could not be read.
        """
        plain = decide(who, need, self._roles)
        if plain.allowed or not plain.is_known:
            return plain
        tenant, namespace = tenant_of(need), namespace_of(need)
        if tenant is None:
            return plain
        info = await self._resources.tenants.get(tenant)
        policies = None if namespace is None else await self._resources.namespaces.get(str(namespace))
        return self._decide(who, need, namespace, policies, () if info is None else info.admin_roles)

    def allows_at_once(self, who: Principal, needs: Iterable[Need]) -> bool:
        """Return True if the cached grants show that `who` has all rights, so that the caller need not call `require`.
        False: a right is missing, or the cache does not contain all that is needed; then call `require`, which decides.
        """
        if not self.is_enabled:
            return True
        return all(self._allows_at_once(who, need) for need in needs)

    def _allows_at_once(self, who: Principal, need: Need) -> bool:
        tenant, namespace = tenant_of(need), namespace_of(need)
        if tenant is None:
            return decide(who, need, self._roles).allowed
        info = self._resources.tenants.get_if_cached(tenant)
        policies = None if namespace is None else self._resources.namespaces.get_if_cached(str(namespace))
        return self._decide(who, need, namespace, policies, () if info is None else info.admin_roles).allowed

    def _decide(
        self,
        who: Principal,
        need: Need,
        namespace: NamespaceName | None,
        policies: Policies | None,
        admins: Iterable[str],
    ) -> Verdict:
        grants = NO_GRANTS if namespace is None or policies is None else self._grants(namespace, policies)
        return decide(who, need, self._roles, grants, frozenset(admins))

    def _grants(self, namespace: NamespaceName, policies: Policies) -> Grants:
        """Return the grants of a namespace, decoded from `policies`. They are cached, and decoded again only when this
        is called with another `policies` object for the namespace.
        """
        found = self._cached.get(namespace)
        if found is not None and found[0] is policies:
            return found[1]
        grants = read_grants(policies.auth_policies, policies.subscription_auth_mode)
        self._cached.put(namespace, (policies, grants))
        return grants
