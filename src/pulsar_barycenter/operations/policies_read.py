"""Reads the rules of administrators; as they seldom change, a broker is seldom asked for them.

| rule | is read |
|---|---|
| isolation policies, failure domains | every five minutes, with two requests |
| the anti-affinity group of a namespace | when the namespace is new, then once an hour, and before its bundles move |

There is no request for the groups of all namespaces. The hour is spread: each reading asks for the groups that were
read longest ago, as many as the time since the last reading allows.

`PoliciesReader` reads them for a balancer, `PoliciesOfCluster` for a collector.
"""

import asyncio
import math
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

import msgspec

from pulsar_barycenter.admin.client import AdminClient
from pulsar_barycenter.load.policies import (
    ClusterPolicies,
    FailureDomain,
    IsolationPolicies,
    domains_of_brokers,
    group_key,
)
from pulsar_barycenter.naming.counted import count_of
from pulsar_barycenter.observer.collector import PoliciesUnreadableError
from pulsar_barycenter.operations.admin_cluster import AdminCluster
from pulsar_barycenter.operations.executor import NotNowError, RefusedError, when_told

MAX_NAMESPACES: Final = 10_000
"""The number of namespaces whose anti-affinity groups are read; with more, reading raises RefusedError."""
RULES_MS: Final = 5 * 60_000
"""How long isolation policies and failure domains that were read are used."""
GROUPS_MS: Final = 60 * 60_000
"""Within this time the group of each known namespace is read again."""
_AT_ONCE: Final = 8
_WITHIN_S: Final = 120.0
_WITHIN_A_ROUND_S: Final = 20.0
"""The time limit of a reading for a collector. After it, PoliciesUnreadableError is raised, and the collector goes on
with the load; the groups that were read until then are kept for the next reading.
"""


class PoliciesReader:
    """Reads the rules of a cluster (isolation policies, failure domains and anti-affinity groups), and keeps what it
    read last. A method raises TimeoutError if it takes longer than `within_s` seconds.
    """

    def __init__(self, cluster: AdminCluster, *, within_s: float = _WITHIN_S) -> None:
        self._cluster = cluster
        self._within_s = within_s
        self._isolation = IsolationPolicies()
        self._domains: Mapping[str, str] = {}
        self._rules_ms: int | None = None
        self._groups: dict[str, str | None] = {}
        self._read_ms: dict[str, int] = {}
        self._last_ms: int | None = None

    async def read(self, namespaces: Collection[str], now_ms: int) -> ClusterPolicies:
        """Return the rules that apply to the balancing of these namespaces. Only rules whose last reading is too long
        ago at the time `now_ms` (epoch ms) are read from the cluster; the other rules are returned as they were read
        last.

        Raises:
            RefusedError: there are more than MAX_NAMESPACES namespaces, an isolation policy is not valid, or the
                cluster refuses a request.
            NotNowError, TimeoutError: the cluster did not answer, or not within the time; a later reading may succeed.
        """
        if len(namespaces) > MAX_NAMESPACES:
            raise RefusedError(
                f"the policies are not read: the cluster has load in {count_of(len(namespaces), 'namespace')}, and"
                f" policies can be read for at most {MAX_NAMESPACES:,}"
            )
        async with asyncio.timeout(self._within_s):
            if self._rules_ms is None or now_ms - self._rules_ms >= RULES_MS:
                await self._read_rules(now_ms)
            await self._read_groups(due(namespaces, self._read_ms, since_ms=self._last_ms, now_ms=now_ms), now_ms)
        self._last_ms = now_ms
        for gone in self._groups.keys() - set(namespaces):
            del self._groups[gone], self._read_ms[gone]
        return self._policies()

    async def changed(self, namespaces: Collection[str], now_ms: int) -> list[str]:
        """Read the anti-affinity groups of all these namespaces. Return the namespaces whose group differs from the one
        that was read last, sorted by name. `now_ms` is epoch ms.

        Raises:
            NotNowError, RefusedError, TimeoutError: the groups cannot be read.
        """
        before = dict(self._groups)
        async with asyncio.timeout(self._within_s):
            await self._read_groups(namespaces, now_ms)
        return sorted(name for name in namespaces if self._groups.get(name) != before.get(name))

    def _policies(self) -> ClusterPolicies:
        groups = {namespace: group for namespace, group in self._groups.items() if group is not None}
        return ClusterPolicies(self._isolation, self._domains, groups)

    async def _read_rules(self, now_ms: int) -> None:
        stored = msgspec.convert(await when_told(self._cluster.isolation), dict[str, Any])
        isolation, errors = IsolationPolicies.decode(stored)
        if errors:
            raise RefusedError(str(errors[0]))
        domains = msgspec.convert(await when_told(self._cluster.failure_domains), dict[str, FailureDomain])
        self._isolation, self._domains, self._rules_ms = isolation, domains_of_brokers(domains), now_ms

    async def _read_groups(self, namespaces: Iterable[str], now_ms: int) -> None:
        gate = asyncio.Semaphore(_AT_ONCE)

        async def read(namespace: str) -> None:
            async with gate:
                group = group_key(await when_told(lambda: self._cluster.anti_affinity_group(namespace)))
            self._groups[namespace], self._read_ms[namespace] = group, now_ms

        await asyncio.gather(*map(read, namespaces))


class PoliciesOfCluster:
    """A `PoliciesSource` that reads the rules from a cluster; `client` sends the requests."""

    def __init__(self, client: AdminClient) -> None:
        self._cluster = AdminCluster(client, "")
        self._reader = PoliciesReader(self._cluster, within_s=_WITHIN_A_ROUND_S)

    async def read(self, url: str, namespaces: Collection[str], now_ms: int) -> ClusterPolicies:
        self._cluster.turn_to(url)
        try:
            return await self._reader.read(namespaces, now_ms)
        except TimeoutError:
            raise PoliciesUnreadableError(
                f"the policies were not read: the cluster did not answer within {_WITHIN_A_ROUND_S:g} s"
            ) from None
        except (NotNowError, RefusedError, msgspec.ValidationError) as error:
            raise PoliciesUnreadableError(str(error)) from error


def due(namespaces: Collection[str], read_ms: Mapping[str, int], *, since_ms: int | None, now_ms: int) -> list[str]:
    """Return the namespaces whose anti-affinity groups are to be read now: first all namespaces that were never read,
    then some of the others, those that were read longest ago.

    `read_ms` has the time at which each known namespace was last read. `since_ms` is the time at which any namespace
    was last read; None if none was. Both are epoch ms. As long as this is called again and again, each known namespace
    is returned again within GROUPS_MS.
    """
    new = sorted(name for name in namespaces if name not in read_ms)
    if since_ms is None:
        return new
    known = sorted((name for name in namespaces if name in read_ms), key=lambda name: (read_ms[name], name))
    share = min(1.0, max(0, now_ms - since_ms) / GROUPS_MS)
    return [*new, *known[: math.ceil(len(known) * share)]]
